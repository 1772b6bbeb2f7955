// SPDX-License-Identifier: Apache-2.0

package html

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"preflight/checks"
	"preflight/facts"
	"preflight/testhosts/reporttest"
)

func htmlOf(t testing.TB, r checks.Report) string {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, r); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// everything returns a small report with every part of the page.
func everything() checks.Report {
	r := reporttest.Failing()
	linked := reporttest.Fabric()
	for i, node := range reporttest.Wired().Nodes {
		r.Nodes[i].Facts = node.Facts
		r.Nodes[i].NVML, r.Nodes[i].GPU, r.Nodes[i].IB = linked.Nodes[i].NVML, linked.Nodes[i].GPU, linked.Nodes[i].IB
	}
	r.Nodes[1].Rehearsed = &facts.Rehearsed{
		Program: &facts.RehearsedProgram{ExitCode: 1, Output: "[E] failed (exitcode: 7)\nTraceback <b>\n"},
		Ranks:   []facts.RehearsedRank{{Rank: 1, Stage: "meet", End: facts.EndFailed, Error: "RuntimeError: x", Trace: "  File \"train.py\", line 1\n"}},
	}
	r.Nodes[3].Missing = map[facts.Section]string{facts.SectionSHM: "not reached"}
	r.Advice, r.Interconnect = reporttest.Wired().Advice, linked.Interconnect
	r.Policy, r.Normalized = "preflight.yaml", true
	r.Advice.Seen = []checks.AdvisedEnv{{Name: "NCCL_IB_GID_INDEX", Value: "3", Why: "it is there"}}
	r.Waived = []checks.Waived{{
		Finding: checks.Finding{Check: r.Checks[0].Check, Verdict: checks.Fail, Nodes: []string{"w1"}, Summary: "as last week", Got: "64 MiB"},
		Reason:  "docker default", Owner: "ops", Until: "2099-12-31",
	}}
	return r
}

// scriptData matches the data in a script element.
var scriptData = regexp.MustCompile(`(<script type="application/json" id="[a-z-]+">).*?(</script>)`)

// TestHTML compares the page with a golden page that people can read. The golden page leaves out
// the style and the script, which have their own files, and the data, which has its own tests.
func TestHTML(t *testing.T) {
	page := htmlOf(t, everything())
	for _, part := range []string{pageStyle, pageScript} {
		if !strings.Contains(page, part) {
			t.Fatal("the page lacks its style or its script as they are")
		}
		page = strings.Replace(page, part, "…", 1)
	}
	page = scriptData.ReplaceAllString(page, "$1…$2")
	page = regexp.MustCompile(`sha256-.*?&#39;`).ReplaceAllString(page, "sha256-…&#39;")
	reporttest.Golden(t, "page.html", []byte(page))
	if again := htmlOf(t, everything()); again != htmlOf(t, everything()) {
		t.Error("the same report makes two pages")
	}
}

// TestHTMLTellsTriedFromSeen checks that settings that no drill tried are not listed as proven.
func TestHTMLTellsTriedFromSeen(t *testing.T) {
	page := htmlOf(t, everything())
	_, after, found := strings.Cut(page, "Proven to work by this run")
	proven, seen, told := strings.Cut(after, "Derived from the facts, not tried")
	env := everything().Advice.Env[0]
	if !found || !told || !strings.Contains(proven, env.Name+"="+env.Value) || strings.Contains(proven, "NCCL_IB_GID_INDEX") || !strings.Contains(seen, "NCCL_IB_GID_INDEX=3") {
		t.Errorf("proven is %.600q", proven)
	}
}

// voidElements lists the elements that have no end tag
// (https://html.spec.whatwg.org/#void-elements).
var voidElements = []string{"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}

// TestHTMLIsWellFormed checks that every tag is closed, that no attribute and no id occurs twice,
// and that every link target exists.
func TestHTMLIsWellFormed(t *testing.T) {
	for name, r := range map[string]checks.Report{"everything": everything(), "passing": reporttest.Passing(), "empty": {Verdict: checks.Unknown}, "recorded": reporttest.Recorded(t), "hostile": hostileReport("<b id=x>")} {
		t.Run(name, func(t *testing.T) {
			page := htmlOf(t, r)
			wellFormed(t, page)
			referred(t, page)
		})
	}
}

func wellFormed(t *testing.T, page string) {
	t.Helper()
	var open []string
	tokens := html.NewTokenizer(strings.NewReader(page))
	for {
		kind := tokens.Next()
		token := tokens.Token()
		switch kind {
		case html.ErrorToken:
			if len(open) > 0 {
				t.Errorf("left open: %q", open)
			}
			return
		case html.StartTagToken:
			var names []string
			for _, attribute := range token.Attr {
				if slices.Contains(names, attribute.Key) {
					t.Errorf("<%s> has %s twice", token.Data, attribute.Key)
				}
				names = append(names, attribute.Key)
			}
			if !slices.Contains(voidElements, token.Data) {
				open = append(open, token.Data)
			}
		case html.EndTagToken:
			if len(open) == 0 || open[len(open)-1] != token.Data {
				t.Fatalf("</%s> closes %q", token.Data, open)
			}
			open = open[:len(open)-1]
		}
	}
}

// each visits every element of a page.
func each(t *testing.T, page string, visit func(*html.Node)) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for node := range root.Descendants() {
		if node.Type == html.ElementNode {
			visit(node)
		}
	}
}

func attribute(node *html.Node, key string) string {
	for _, a := range node.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func referred(t *testing.T, page string) {
	t.Helper()
	ids := map[string]bool{}
	var wanted []string
	each(t, page, func(node *html.Node) {
		if id := attribute(node, "id"); id != "" {
			if ids[id] {
				t.Errorf("the id %s is there twice", id)
			}
			ids[id] = true
		}
		wanted = append(wanted, strings.Fields(attribute(node, "aria-labelledby"))...)
		if target, local := strings.CutPrefix(attribute(node, "href"), "#"); local {
			wanted = append(wanted, target)
		}
	})
	for _, id := range wanted {
		if !ids[id] {
			t.Errorf("nothing has the id %s", id)
		}
	}
	var d pageData
	if err := json.Unmarshal([]byte(script(t, page, "data")), &d); err != nil {
		t.Fatal(err)
	}
	for _, mark := range d.Marks {
		if !ids[mark.Anchor] {
			t.Errorf("a cell leads to %s, which is not there", mark.Anchor)
		}
	}
}

// script returns the text of a script element.
func script(t *testing.T, page, id string) (text string) {
	t.Helper()
	each(t, page, func(node *html.Node) {
		if node.Data == "script" && attribute(node, "id") == id && node.FirstChild != nil {
			text = node.FirstChild.Data
		}
	})
	return text
}

// TestHTMLIsSelfContained checks that the page fetches nothing and has no script or style that its
// policy does not allow.
func TestHTMLIsSelfContained(t *testing.T) {
	page := htmlOf(t, everything())
	each(t, page, func(node *html.Node) {
		for _, a := range node.Attr {
			isAddress := slices.Contains([]string{"href", "src", "srcset", "action", "data", "poster", "formaction"}, a.Key)
			if isAddress && !strings.HasPrefix(a.Val, "#") {
				t.Errorf("<%s %s=%q>", node.Data, a.Key, a.Val)
			}
			if a.Key == "style" || strings.HasPrefix(a.Key, "on") {
				t.Errorf("<%s> has %s, which the policy forbids", node.Data, a.Key)
			}
		}
		switch node.Data {
		case "link", "iframe", "img", "base", "object", "embed":
			t.Errorf("there is a <%s>", node.Data)
		case "meta":
			if attribute(node, "http-equiv") == "Content-Security-Policy" && attribute(node, "content") != pagePolicy {
				t.Errorf("the policy is %q", attribute(node, "content"))
			}
		}
	})
	for _, reach := range []string{"url(", "@import", "fetch(", "XMLHttpRequest", "innerHTML", "eval("} {
		if strings.Contains(pageStyle+pageScript, reach) {
			t.Errorf("the page's own code has %s", reach)
		}
	}
}

// hostileReport returns a report in which every text of a node is the given text.
func hostileReport(text string) checks.Report {
	r := everything()
	r.Hostfile, r.Version = text, text
	for i := range r.Nodes {
		node := &r.Nodes[i]
		node.Name = text + node.Name
		node.Missing = map[facts.Section]string{facts.SectionHost: text}
		node.SSH = &facts.SSH{Noise: []string{text}}
		node.Env = &facts.Env{}
		if node.Mesh == nil {
			continue
		}
		node.Mesh.Interface = text
		node.Mesh.Reached = map[string]float64{text + "w1": 1, text: 2}
		node.Mesh.Failed = []facts.Path{{Peer: text + "w1", Outcome: facts.PathOutcome(text), Error: text}}
		node.Rendezvous.Endpoint, node.Rendezvous.Failed, node.Rendezvous.Error = text, facts.Hop(text), text
		for j := range node.NVML.Cards {
			node.NVML.Cards[j].Name, node.NVML.Topology[j][1-j] = text, text
		}
		node.IB.Devices[0].Name = text
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		f.Nodes = []string{r.Nodes[0].Name}
		f.Check, f.Summary, f.Got, f.Want, f.WouldSee, f.Fix = text, text, text, text, text, []string{text}
	}
	for i := range r.Checks {
		r.Checks[i].Check, r.Checks[i].Reason = text, text
	}
	r.Policy = text
	for i := range r.Waived {
		w := &r.Waived[i]
		w.Check, w.Summary, w.Got, w.Reason, w.Owner, w.Until, w.Nodes = text, text, text, text, text, text, []string{r.Nodes[0].Name}
	}
	quoted, _ := json.Marshal(text)
	for i := range r.Diff {
		r.Diff[i].Fact = text
		r.Diff[i].Groups[0] = checks.FactGroup{Value: quoted, Nodes: []string{text}}
	}
	for i := range r.Interconnect {
		r.Interconnect[i].Inside.Detail, r.Interconnect[i].Nodes = text, []string{r.Nodes[i].Name}
	}
	r.Advice.Env[0] = checks.AdvisedEnv{Name: text, Value: text, Why: text}
	r.Advice.Seen[0] = r.Advice.Env[0]
	return r
}

var hostileTexts = []string{
	`</script><script>alert(1)</script>`, `<!--<script>`, `"><img src=x onerror=alert(1)>`, `'><svg onload=alert(1)>`,
	`</style><b>`, `{{.Script}}`, `javascript:alert(1)`, "]]>\x00\x1b[31m", "\u202eevil\u2066", `__proto__`, `&lt;b&gt;`,
}

func TestHostileTextIsInert(t *testing.T) {
	shape := func(page string) (elements []string) {
		each(t, page, func(node *html.Node) {
			elements = append(elements, node.Data)
			for _, a := range node.Attr {
				elements = append(elements, a.Key)
			}
		})
		return elements
	}
	want := shape(htmlOf(t, hostileReport("harmless")))
	for _, text := range hostileTexts {
		page := htmlOf(t, hostileReport(text))
		wellFormed(t, page)
		if got := shape(page); !slices.Equal(want, got) {
			t.Errorf("%q changes the page: %d elements and attributes, not %d", text, len(got), len(want))
		}
		var d pageData
		if err := json.Unmarshal([]byte(script(t, page, "data")), &d); err != nil || !strings.HasPrefix(d.Names[0], strings.ToValidUTF8(text, "�")) {
			t.Errorf("%q: the data is %v, %v", text, d.Names, err)
		}
		for _, r := range page {
			if r == '\u202e' || r == '\u2066' || r == 0x1b || r == 0 {
				t.Errorf("%q: the raw character %U is on the page", text, r)
				break
			}
		}
	}
}

// TestHTMLOfAThousandNodes checks that the page stays small enough to open at once.
func TestHTMLOfAThousandNodes(t *testing.T) {
	page := htmlOf(t, largeFleet(t, 1000))
	t.Logf("%d bytes: %d of facts, %d of the matrix, the rest %d", len(page), len(script(t, page, "node-facts")), len(script(t, page, "data")),
		len(page)-len(script(t, page, "node-facts"))-len(script(t, page, "data")))
	if len(page) > 3_000_000 {
		t.Errorf("the page has %d bytes", len(page))
	}
}

// TestHTMLSaysWhatDoesNotCount checks that waived findings have an owner and an end date, and that
// the page says that a run is incomplete.
func TestHTMLSaysWhatDoesNotCount(t *testing.T) {
	r := everything()
	r.Interrupted = true
	r.Findings = append(r.Findings, checks.Finding{Check: "policy", Verdict: checks.Fail, Summary: "a waiver has ended"})
	page := htmlOf(t, r)
	for _, part := range []string{
		`<a href="#waived">1 waived</a>`, `<tr id="waived-1">`, "<td>docker default</td><td class=\"owner\">ops</td><td class=\"date\">2099-12-31</td>",
		"policy preflight.yaml", "stopped before every node had answered", "normalized snapshot",
	} {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	if strings.Contains(page, "the launching machine</span>") {
		t.Error("an expired waiver is laid at the launching machine's door")
	}
	none := reporttest.Failing()
	if page := htmlOf(t, none); strings.Contains(page, `id="waived"`) || strings.Contains(page, `class="remark"`) {
		t.Error("nothing is waived, and the page has room for it")
	}
}

// TestHTMLHeadings checks that no level of headings is skipped, so that a screen reader's list of
// headings is the outline of the page.
func TestHTMLHeadings(t *testing.T) {
	above := 0
	r := everything()
	r.Findings = nil // without findings, the settings come first
	each(t, htmlOf(t, r), func(node *html.Node) {
		if len(node.Data) != 2 || node.Data[0] != 'h' || node.Data[1] < '1' || node.Data[1] > '6' {
			return
		}
		level := int(node.Data[1] - '0')
		if level > above+1 || level == 1 && above > 0 {
			t.Errorf("<%s> follows <h%d>", node.Data, above)
		}
		above = level
	})
	if above == 0 {
		t.Error("there is no heading")
	}
}
