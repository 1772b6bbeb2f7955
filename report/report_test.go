// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/facts"
	"preflight/internal/text"
	"preflight/testhosts/reporttest"
)

func TestText(t *testing.T) {
	interrupted := reporttest.Failing()
	interrupted.Interrupted = true
	for name, c := range map[string]struct {
		report checks.Report
		style  Style
	}{
		"failing":     {reporttest.Failing(), Style{}},
		"narrow":      {reporttest.Failing(), Style{Width: 56}},
		"color":       {reporttest.Failing(), Style{Color: true}},
		"verbose":     {reporttest.Failing(), Style{Verbose: true, Width: 160}},
		"quiet":       {reporttest.Failing(), Style{Quiet: true}},
		"interrupted": {interrupted, Style{Quiet: true}},
		"passing":     {reporttest.Passing(), Style{}},
		"wire":        {reporttest.Wired(), Style{}},
		"smoke":       {reporttest.Smoked(), Style{}},
		"isolated":    {reporttest.Isolated(), Style{}},

		"smoke-verbose":    {reporttest.Smoked(), Style{Verbose: true, Width: 120}},
		"isolated-verbose": {reporttest.Isolated(), Style{Verbose: true}},
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			if err := Text(&got, c.report, c.style); err != nil {
				t.Fatal(err)
			}
			reporttest.Golden(t, name+".txt", got.Bytes())
			if !c.style.Color && bytes.ContainsRune(got.Bytes(), '\x1b') {
				t.Error("an escape sequence got through")
			}
			for line := range strings.Lines(got.String()) {
				width := c.style.Width
				if width == 0 {
					width = 100
				}
				isCommand := strings.Contains(line, "pdsh") || strings.Contains(line, "ssh w4") || c.style.Width == 0 && strings.HasPrefix(line, "  2  shm-size")
				if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > width && !isCommand && !c.style.Color {
					t.Errorf("%d columns on a page of %d: %q", n, width, line)
				}
			}
		})
	}
}

func TestLongListsShowWhatTheOthersLack(t *testing.T) {
	long := `["/usr/lib/python311.zip","/usr/lib/python3.11","/usr/lib/python3.11/lib-dynload"`
	r := checks.Report{Fleet: facts.Fleet{Nodes: []facts.Node{{Name: "w1"}, {Name: "w2"}, {Name: "w3"}}}, Diff: []checks.FactDiff{{Fact: "python.sys_path", Groups: []checks.FactGroup{
		{Value: json.RawMessage(long + "]"), Nodes: []string{"w1", "w2"}},
		{Value: json.RawMessage(long + `,"/root/.local/lib"]`), Nodes: []string{"w3"}},
	}}}}
	var out bytes.Buffer
	if err := Text(&out, r, Style{}); err != nil {
		t.Fatal(err)
	}
	if want := "python.sys_path  none of these (w[1-2])  with /root/.local/lib (w3)"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in:\n%s", want, out.String())
	}
}

func TestJSONIsReadBack(t *testing.T) {
	want := reporttest.Failing()
	want.Advice = checks.Advice{Env: []checks.AdvisedEnv{}, Args: []string{}}
	want.Nodes[0].SHM = &facts.SHM{Size: 5, Segments: []facts.Segment{{Name: "nccl-\u009b31m"}}}
	var out bytes.Buffer
	if err := JSON(&out, want); err != nil {
		t.Fatal(err)
	}
	for _, r := range out.String() {
		if r == 0x1b || r >= 0x7f && r < 0xa0 || r == '\u202e' {
			t.Fatalf("JSON holds the raw control character %U", r)
		}
	}
	got, err := Read(&out)
	if err != nil {
		t.Fatal(err)
	}
	// A missing fact is null in JSON, and Read returns it as the text "null".
	want.Diff[1].Groups[1].Value = json.RawMessage("null")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestValue(t *testing.T) {
	for _, test := range []struct{ fact, value, want string }{
		{"shm.size", "67108864", "64 MiB"},
		{"net.interfaces.eth0.speed", "100000000000", "100 Gbit/s"},
		{"net.interfaces.eth0.mtu", "9000", "9000"},
		{"limits.nofile.soft", "-1", "unlimited"},
		{"ib.devices.mlx5_0.numa_node", "-1", "-1"},
		{"python.sys_path", `["/a","/b"]`, "/a, /b"},
		{"launcher.env_files", `[{"path":"/home/train/.deepspeed_env","lines":["A=1","B=2"]},{"path":"/x","lines":null}]`, "lines A=1 B=2 path /home/train/.deepspeed_env, path /x"},
		{"python.found", "true", "true"},
		{"shm.write_error", `""`, `""`},
		{"shm.mode", "null", "absent"},
		{"shm.mode", "", "absent"},
		{"host.os", `"a\u001b[2Jb"`, `a\x1b[2Jb`},
	} {
		if got := Value(test.fact, json.RawMessage(test.value)); got != test.want {
			t.Errorf("Value(%s, %s) = %q, want %q", test.fact, test.value, got, test.want)
		}
	}
}

func TestCatalogueFitsThePage(t *testing.T) {
	list := []checks.Check{{ID: "clock-skew", Severity: checks.Warning}, {ID: "gpu-nic-affinity", Severity: checks.Warning}}
	var out bytes.Buffer
	if err := Catalogue(&out, list, Style{Width: 60}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for _, line := range lines {
		if len(line) > 60 {
			t.Errorf("%d columns on a page of 60: %q", len(line), line)
		}
	}
	if want := "clock-skew        warning   the clocks on all nodes agree"; lines[1] != want {
		t.Errorf("got  %q\nwant %q", lines[1], want)
	}
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, strings.Repeat(" ", 27)) || !strings.HasSuffix(last, "all nodes") {
		t.Errorf("a long title goes on below itself, got %q", last)
	}
}

func TestReadRefusesOtherSchemas(t *testing.T) {
	for _, text := range []string{"", "{", `{"schema":2}`, `[]`, `{"schema":"1"}`} {
		if _, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("Read(%q) took it for a report", text)
		}
	}
}

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"plain — ünïcode": "plain — ünïcode",
		"\x1b[2J":         `\x1b[2J`,
		"a\tb\nc\x00":     `a b c\x00`,
		"\u009b31m":       `\x9b31m`,
		"abc\u202edef":    `abc\u202edef`,
		"\u200bhidden":    `\u200bhidden`,
	} {
		if got := text.Escape(in); got != want {
			t.Errorf("Escape(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestHeadlineStaysALine checks that the headline counts many scattered nodes and names a single
// node.
func TestHeadlineStaysALine(t *testing.T) {
	p := Words{fleet: 400}
	var odd []string
	for i := range 100 {
		odd = append(odd, fmt.Sprint("w", 1+3*i))
	}
	got := []string{p.briefly(odd), p.briefly(odd[:3]), p.briefly([]string{strings.Repeat("n", 2*longestWhom)})}
	if diff := cmp.Diff([]string{"100 of 400 nodes", "w[1,4,7]", strings.Repeat("n", 2*longestWhom)}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
