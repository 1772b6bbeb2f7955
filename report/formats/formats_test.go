// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"preflight/checks"
	"preflight/checks/catalogue"
	"preflight/checks/engine"
	"preflight/report"
	"preflight/testhosts/reporttest"
)

// TestOneThingTwice checks that every format can show a node that lists an interface or a GPU
// twice, and that JSON keeps both entries.
func TestOneThingTwice(t *testing.T) {
	r := reporttest.Recorded(t)
	for i := range r.Nodes {
		if net := r.Nodes[i].Net; net != nil {
			net.Interfaces = append(net.Interfaces, net.Interfaces[0])
			break
		}
	}
	for i := range r.Nodes {
		if nvml := r.Nodes[i].NVML; nvml != nil && len(nvml.Cards) > 0 {
			nvml.Cards = append(nvml.Cards, nvml.Cards[0])
			break
		}
	}
	judged := engine.Evaluate(catalogue.Catalogue, r.Fleet, r.Launch, checks.DefaultPolicy())
	for _, d := range judged.Diff {
		if len(d.Groups) < 2 {
			t.Errorf("%s does not differ: %v", d.Fact, d.Groups)
		}
	}
	for _, f := range All {
		if rendered(t, f, judged, report.Style{Verbose: true}) == "" {
			t.Errorf("%s is empty", f.Name)
		}
	}
}

// TestThousandNodes checks that every format with a size limit stays below the limit and still
// shows the verdict, even if everything differs on every node.
func TestThousandNodes(t *testing.T) {
	r := reporttest.Recorded(t)
	recorded := r.Nodes
	var differ []checks.FactGroup
	for i := range 1000 {
		node := recorded[i%len(recorded)]
		node.Name = fmt.Sprintf("node%04d", 7*i) // a name that cannot be folded
		r.Nodes = append(r.Nodes, node)
		differ = append(differ, checks.FactGroup{Value: json.RawMessage(strconv.Itoa(i)), Nodes: []string{node.Name}})
	}
	r.Diff = append(r.Diff, checks.FactDiff{Fact: "shm.size", Groups: differ})
	for i := range r.Nodes {
		r.Findings = append(r.Findings, checks.Finding{Check: "shm-size", Verdict: checks.Fail, Nodes: []string{r.Nodes[i].Name},
			Summary: "/dev/shm is too small", Fix: []string{"ssh " + r.Nodes[i].Name + " mount -o remount,size=1G /dev/shm"}})
	}
	r.Conclude(false)
	for name, c := range map[string]struct {
		most int // maximum size in bytes
		has  string
	}{
		"markdown": {65_536, "## FAIL: this launch will not work"},
		"github":   {64_000, "::error title=preflight::and "},
		"nagios":   {1024, "PREFLIGHT CRITICAL - this launch will not work"},
	} {
		f, _ := Of(name)
		if text := rendered(t, f, r, report.Style{}); len(text) > c.most || !strings.Contains(text, c.has) {
			t.Errorf("%s has %d bytes, %d go: %.100q", name, len(text), c.most, text)
		}
	}
}

// TestNothingRaw checks that no format contains text that a terminal would treat as a command.
func TestNothingRaw(t *testing.T) {
	for _, f := range All {
		if f.Hosts {
			continue // this format refuses such names
		}
		data := f.Name == "json" || f.Name == "html" // in these formats invisible characters can occur only in data
		for _, r := range rendered(t, f, reporttest.Hostile(), report.Style{}) {
			if r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 || !data && strings.ContainsRune("\u202e\u200b\ufffe\uffff\U000e0001", r) {
				t.Errorf("%s holds the raw character %U", f.Name, r)
			}
		}
	}
}

// obeyed matches text that CI runners treat as a command (actions/runner, ActionCommand.cs).
var obeyed = regexp.MustCompile(`(?m)^\s*::.*::|##\w*\[`)

// TestNothingObeyed checks that a CI step that prints a report runs no command from a node's text.
func TestNothingObeyed(t *testing.T) {
	said := "1.0\n::stop-commands::x\n  ::add-mask::a\n##[add-mask]a ##vso[task.complete]b ###[x]\n::error::" + strings.Repeat(" word ::warning::w", 40)
	r := reporttest.Hostile()
	r.Hostfile, r.Version, r.Nodes[1].Name = said, said, "##[x]"
	for i := range r.Findings {
		f := &r.Findings[i]
		f.Summary, f.Got, f.Want, f.WouldSee, f.Fix = said, said, said, said, []string{said, said}
	}
	for i := range r.Checks {
		r.Checks[i].Reason = said
	}
	value, err := json.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}
	r.Diff = []checks.FactDiff{{Fact: said, Groups: []checks.FactGroup{{Value: value, Nodes: []string{"w1"}}, {Value: value, Nodes: []string{"##[x]"}}}}}
	check := func(name, text string) {
		if obeyed.MatchString(text) {
			t.Errorf("%s: a runner would obey %.60q", name, obeyed.FindAllString(text, 3))
		}
	}
	for _, f := range All {
		if !f.Hosts && f.Name != "github" { // the github format contains commands on purpose
			check(f.Name, rendered(t, f, r, report.Style{Width: 40}))
		}
	}
	var changes strings.Builder
	if err := report.ChangesText(&changes, report.Changed{Changes: []checks.Change{{Node: "w1", Fact: said, Before: value}}}, report.Style{}); err != nil {
		t.Fatal(err)
	}
	check("changes", changes.String())
	back, err := report.Read(strings.NewReader(reporttest.Rendered(t, report.JSON[checks.Report], r)))
	if err != nil || back.Findings[0].Got != said {
		t.Errorf("JSON brings back %q (%v)", back.Findings[0].Got, err)
	}
}

func rendered(t *testing.T, f Format, r checks.Report, style report.Style) string {
	t.Helper()
	return reporttest.Rendered(t, func(w io.Writer, r checks.Report) error { return f.Render(w, r, style) }, r)
}
