// SPDX-License-Identifier: Apache-2.0

package html

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/report"
	"preflight/testhosts/reporttest"
)

func TestBrowserFiltersAndFolds(t *testing.T) {
	b := browse(t, largeFleet(t, 1000))
	await(b, rowLabels, func(folded []string) bool { return len(folded) >= 3 && len(folded) <= 9 })
	await(b, `document.getElementById("matrix-count").textContent`, starts("1000 nodes in "))
	b.fill("matrix-nodes", "node0013")
	await(b, rowLabels, is([]string{"node0013"}))
	b.fill("matrix-nodes", "")
	b.fill("matrix-checks", "protobuf-same")
	await(b, `[...document.querySelectorAll("#matrix-table thead th span:not(.hidden-text)")].map((s) => s.textContent)`, is([]string{"protobuf-same"}))
	await(b, `document.getElementById("matrix-count").textContent`, starts("1000 nodes in "))
	b.do(chromedp.SetValue(in("#matrix-verdict"), "f"))
	b.have(`document.getElementById("matrix-verdict").dispatchEvent(new Event("change"))`)
	await(b, rowLabels, is([]string{"node[0013,0110,0207,0304,0401,0498,0595,0692,0789,0886,0983]"}))
	b.do(chromedp.Click(in("#matrix-fold")))
	await(b, rowLabels, func(rows []string) bool { return len(rows) == 11 && rows[1] == "node0110" })
	// Click with a script, because the table may be drawn again between finding the button and
	// clicking it.
	b.have(`document.querySelector("#matrix-table tbody tr:nth-child(2) button").click()`)
	await(b, `document.querySelector("#facts-shown caption")?.textContent`, is("Facts of node0110"))
	await(b, `store.section("host", 110).hostname`, is("node0110"))
	b.have(`document.querySelector(".heat-map").scrollIntoView()`)
	b.until(`document.querySelectorAll(".tile").length === 1000`)
	await(b, `[...document.querySelectorAll(".tile.bad")].map((tile) => tile.getAttribute("aria-label").split(":")[0])`,
		func(bad []string) bool { return slices.Contains(bad, "node0013") && !slices.Contains(bad, "node0014") })
}

// TestBrowserWritesSetsAsTheRest checks that the script folds sets of nodes in the same way as the
// rest of the page.
func TestBrowserWritesSetsAsTheRest(t *testing.T) {
	b := browse(t, checks.Report{})
	for _, names := range [][]string{
		{"w1", "w2", "w3", "w5"}, {"w5", "head", "w4"}, {"n08", "n09", "n10", "n100", "n101"}, {"n8", "n9", "n10"}, {"n0", "n1", "n01"},
		{"r1-n1.example", "r1-n2.example", "r2-n1.example"}, {"10.0.0.1", "10.0.0.2"}, {"a[1]", "a[2]"}, {"solo"}, {"root@w1", "root@w2"},
	} {
		text, err := json.Marshal(names)
		if err != nil {
			t.Fatal(err)
		}
		b.have("data.names = " + string(text))
		await(b, `folded(data.names.map((_, i) => i))`, is(hostfile.Fold(names)))
	}
}

// TestBrowserCountsAsTheRest checks that the page shows a number in the same form among a node's
// facts and in the differences.
func TestBrowserCountsAsTheRest(t *testing.T) {
	b := browse(t, checks.Report{})
	for fact, numbers := range map[string][]string{
		"shm.size":                  {"0", "9", "10", "1023", "1024", "10239", "10240", "67108864", "12638253056", "-1", "9223372036854775807"},
		"limits.stack.soft":         {"-1", "8388608"},
		"limits.nofile.hard":        {"-1", "1024"},
		"net.interfaces.eth0.speed": {"0", "999", "1000", "12345678", "10000000000", "400000000000"},
		"host.uptime":               {"0", "0.00004", "0.0123456", "0.25", "1", "59.96", "119", "121", "7199", "7300", "172799", "1e6", "-3.25"},
		"nvml.cards.0.power.limit":  {"700", "0.5"},
		"net.interfaces.eth0.mtu":   {"9000"},
	} {
		for _, number := range numbers {
			await(b, fmt.Sprintf("counted(%q, %s, %q)", fact, number, facts.Unit(fact)), is(report.Value(fact, json.RawMessage(number))))
		}
	}
}

// TestBrowserShowsFacts checks that the script rebuilds exactly the facts that a node sent.
func TestBrowserShowsFacts(t *testing.T) {
	r := reporttest.Recorded(t)
	r.Nodes = append(r.Nodes, largeFleet(t, 20).Nodes...)
	b := browse(t, r)
	for i, node := range r.Nodes {
		var got facts.Facts
		if err := json.Unmarshal([]byte(ask[string](b, fmt.Sprintf("asJSON(store.all(%d))", i))), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(asSent(t, node.Facts), got); diff != "" {
			t.Fatalf("%s (-told +shown):\n%s", node.Name, diff)
		}
	}
	b.have(`facts.show(2, false)`)
	b.fill("facts-filter", "protobuf.runtime")
	await(b, `document.getElementById("facts-shown").innerText`, func(got string) bool {
		return strings.Contains(got, "python.protobuf.runtime\t5.29.1") && !strings.Contains(got, "hostname")
	})
	b.fill("facts-filter", "shm.size")
	await(b, `[...document.querySelectorAll("#facts-shown td")].map((td) => td.textContent + " " + td.title)`, is([]string{
		report.Value("shm.size", fmt.Append(nil, r.Nodes[2].SHM.Size)) + " " + fmt.Sprint(r.Nodes[2].SHM.Size)}))
}

func TestBrowserLaysRowsOpen(t *testing.T) {
	b := browse(t, largeFleet(t, 30))
	before := await(b, rowLabels, func(rows []string) bool { return len(rows) > 0 })
	at := slices.IndexFunc(before, func(label string) bool { return strings.Contains(label, "[") })
	if at < 0 {
		t.Fatalf("no row is folded: %q", before)
	}
	key := fmt.Sprintf("#matrix-table tbody tr:nth-child(%d) button", at+1)
	expanded := fmt.Sprintf(`document.querySelector(%q).getAttribute("aria-expanded")`, key)
	b.do(chromedp.Focus(in(key)), chromedp.KeyEvent(kb.Enter))
	await(b, expanded, is("true"))
	await(b, rowLabels, func(after []string) bool { return len(after) > len(before) })
	b.do(chromedp.KeyEvent(kb.Enter))
	await(b, expanded, is("false"))
	await(b, rowLabels, is(before))
}

// TestBrowserByKeyboard walks the page with the Tab key alone. It must reach every control, show
// the focus, and never get stuck.
func TestBrowserByKeyboard(t *testing.T) {
	b := browse(t, reporttest.Recorded(t))
	b.have(`document.querySelector(".heat-map").scrollIntoView()`)
	b.until(`document.querySelector(".heat")`)
	b.have(`scrollTo(0, 0);
		window.controls = [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")].filter((e) => e.checkVisibility());
		window.reached = new Set();
		window.unseen = [];
		document.addEventListener("focusin", (e) => {
			reached.add(e.target);
			if (getComputedStyle(e.target).outlineStyle === "none") unseen.push(e.target.outerHTML.slice(0, 80));
		});`)
	most := ask[int](b, `controls.length`)
	for range most + 5 {
		b.do(chromedp.KeyEvent(kb.Tab))
	}
	if missed := ask[[]string](b, `controls.filter((e) => !reached.has(e)).map((e) => e.outerHTML.slice(0, 80))`); len(missed) > 0 {
		t.Errorf("of %d controls Tab does not lead to %q", most, missed)
	}
	if unseen := ask[[]string](b, `unseen`); len(unseen) > 0 {
		t.Errorf("the focus is not seen on %q", unseen)
	}
	b.do(chromedp.Focus(in(".heat tbody td[tabindex='0']")), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowDown))
	await(b, `document.querySelector(".readout").textContent`, starts("w2 → w2: answered in "))
}

func TestBrowserCopies(t *testing.T) {
	b := browse(t, reporttest.Recorded(t))
	command := ask[string](b, `document.querySelector(".copyable code").textContent`)
	// Simulate a page that must not use the clipboard.
	b.have(`navigator.clipboard.writeText = () => Promise.reject(new Error("denied")); document.execCommand = () => false`)
	b.do(chromedp.Click(in(".copyable button")))
	b.until(`document.querySelector(".copyable button").textContent.startsWith("Selected")`)
	await(b, `getSelection().toString()`, is(command))
	b = browse(t, everything())
	b.have(`window.copied = []; Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => { copied.push(text); } } });
		document.querySelectorAll(".steps-head button").forEach((button) => button.click())`)
	await(b, `copied`, is([]string{"pdsh -R ssh -w 'w[2-3]' 'sudo mount -o remount,size=16G /dev/shm'\npdsh -R ssh -w 'w[2-3]' 'sudo systemctl restart slurmd'\n"}))
}

// TestBrowserExplainsOnlyCellsThatAreDrawn checks that the legend has no entry for a cell that is
// not shown.
func TestBrowserExplainsOnlyCellsThatAreDrawn(t *testing.T) {
	b := browse(t, everything())
	const shown = `[...document.querySelectorAll("#matrix-legend > div")].filter((e) => !e.hidden).map((e) => e.querySelector("dt").textContent)`
	await(b, shown, func(signs []string) bool { return !slices.Contains(signs, "–") && slices.Contains(signs, "×") })
	b.do(chromedp.Click(in("#matrix-all")))
	await(b, shown, func(signs []string) bool { return slices.Contains(signs, "–") })
}

// TestBrowserTakesNothingForCode checks that the page shows nodes' text and never runs it, even if
// the script writes the text.
func TestBrowserTakesNothingForCode(t *testing.T) {
	b := browse(t, hostileReport(strings.Join(hostileTexts, " ")))
	b.have(`window.alert = () => { throw new Error("it ran") };
		document.getElementById("matrix-all").click();
		for (let i = 0; i < data.names.length; i++) { facts.show(i, false); document.getElementById("facts-raw").click(); }
		document.querySelectorAll(".heat-map").forEach((box) => box.childElementCount || drawMesh(box));`)
	if n := ask[int](b, `document.querySelectorAll("img, iframe, b, main script").length`); n > 0 {
		t.Errorf("what nodes said made %d elements", n)
	}
	if ask[bool](b, `/[\u202a-\u202e\u2066-\u2069\x1b]/.test(document.documentElement.outerHTML)`) {
		t.Error("a raw control character is on the page")
	}
	if n := ask[int](b, `document.body.innerText.split("\\u202eevil").length`); n < 10 {
		t.Errorf("what nodes said is shown %d times", n)
	}
}

// TestBrowserContrast checks that every text has a contrast of at least 4.5 to 1 to its background,
// level AA of WCAG 2.2 (1.4.3), in light and in dark.
func TestBrowserContrast(t *testing.T) {
	for _, theme := range []string{"light", "dark"} {
		r := everything()
		for i, times := range []float64{1, 2, 4, 8, 16} { // connections with latencies of all colours
			r.Nodes = append(r.Nodes, facts.Node{Name: fmt.Sprint("m", i), Facts: facts.Facts{Mesh: &facts.Mesh{Reached: map[string]float64{"w1": 0.002 * times, "w2": 0.002, "w3": 0.002}}}})
		}
		b := browse(t, r)
		b.have(`document.documentElement.dataset.theme = "` + theme + `"; document.querySelectorAll("details").forEach((d) => { d.open = true; }); document.getElementById("matrix-all").click();
			facts.show(0, false); document.querySelectorAll(".heat-map").forEach((box) => box.childElementCount || drawMesh(box))`)
		poor := ask[[]string](b, contrastScript)
		if len(poor) > 0 {
			t.Errorf("%s: %d texts are hard to read: %.1500q", theme, len(poor), poor)
		}
	}
}

// contrastScript lists the texts with a contrast below 4.5.
const contrastScript = `(() => {
	const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
	const rgba = (color) => { context.clearRect(0, 0, 1, 1); context.fillStyle = color; context.fillRect(0, 0, 1, 1); return context.getImageData(0, 0, 1, 1).data; };
	const luminance = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, w, i) => { const v = c[i] / 255; return sum + w * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); }, 0);
	const ground = (e) => { for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] > 250) return c; } return [255, 255, 255]; };
	const poor = new Set();
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (texts.nextNode()) {
		const e = texts.currentNode.parentElement;
		if (!texts.currentNode.data.trim() || !e.checkVisibility() || e.closest("svg, script, .hidden-text, option")) continue;
		const style = getComputedStyle(e);
		if (parseFloat(style.fontSize) === 0) continue;
		const [a, b] = [luminance(rgba(style.color)), luminance(ground(e))].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		if (ratio < 4.5) poor.add(ratio.toFixed(1) + " " + e.tagName + "." + e.className + " " + texts.currentNode.data.trim().slice(0, 20));
	}
	return [...poor];
})()`

// TestBrowserWithoutScript checks that the verdict, the problems and the differences need no
// script.
func TestBrowserWithoutScript(t *testing.T) {
	b := browse(t, reporttest.Recorded(t), chromedp.Flag("blink-settings", "scriptEnabled=false"))
	text := get(b, chromedp.Text(in("body")))
	for _, part := range []string{"this launch will not work", "deepspeed --master_addr=10.77.1.1", "gpu-driver-loads", "needs JavaScript", "failed here"} {
		if !strings.Contains(text, part) {
			t.Errorf("without JavaScript there is no %q", part)
		}
	}
}

func TestBrowserPrints(t *testing.T) {
	b := browse(t, reporttest.Recorded(t))
	b.have(`document.querySelectorAll(".finding").forEach((f) => { f.open = false; })`)
	b.do(media("print"))
	b.until(`matchMedia("print").matches`)
	if hidden := ask[int](b, `[...document.querySelectorAll(".finding .body")].filter((e) => !e.checkVisibility()).length`); hidden > 0 {
		t.Errorf("%d findings are closed on paper", hidden)
	}
	if shown := ask[int](b, `[...document.querySelectorAll("button, input, nav")].filter((e) => e.checkVisibility() && !e.closest(".tiles, tbody")).length`); shown > 0 {
		t.Errorf("%d controls are on paper", shown)
	}
	paper := get(b, chromedp.PrintToPDF(chromedp.PDFPrintBackground()))
	if !bytes.HasPrefix(paper, []byte("%PDF")) {
		t.Error("it does not print")
	}
	save(t, "print.pdf", paper)
}
