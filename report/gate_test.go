package report

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"strings"
	"testing"

	"preflight/checks"
	"preflight/facts"
)

// evil is what a node might say to get out of wherever its words are put.
const evil = "a|b ]]> --> </details></td><script>x</script> ![i](http://evil.example) [l](//e) `c` ```\n```\n````\n```sh\n| r | " +
	"@octocat #1 www.evil.example 10.0.0.1:100: $x$ *b* __u__ ~~s~~ &lt; \"q\" \\ \\| 'p' %0A::error::in\r\n::error title=x::out\n" +
	"preflight_verdict{} 9\n\x1b[2J\x00\x9b\u202e\u200b\ufffe\uffff\xff\U000e0001 end"

// hostile is a run in which every word that can come from outside is evil.
func hostile() checks.Report {
	return checks.Report{
		Schema: 1, Version: evil, Verdict: checks.Fail, ExitCode: 1, Seconds: 1, Hostfile: evil,
		Fleet: facts.Fleet{
			Head:  &facts.Node{Facts: facts.Facts{Host: &facts.Host{Hostname: evil}}},
			Nodes: []facts.Node{{Name: evil, Reached: true}, {Name: "w2", Reached: true}},
		},
		Checks: []checks.Outcome{
			{Check: "shm-size", Verdict: checks.Fail}, {Check: "env-sane", Verdict: checks.Warn},
			{Check: "python-same", Verdict: checks.Unknown, Reason: evil}, {Check: "ib-links", Verdict: checks.Skip, Reason: evil},
		},
		Findings: []checks.Finding{
			{Check: "shm-size", Verdict: checks.Fail, Nodes: []string{evil}, Summary: evil, Got: evil, Want: evil, Fix: []string{evil, evil}, WouldSee: evil},
			{Check: "python-same", Verdict: checks.Unknown, Nodes: []string{evil}, Summary: evil},
			{Check: "env-sane", Verdict: checks.Warn, Nodes: []string{"w2"}, Summary: evil, Fix: []string{evil}},
		},
		Waived: []checks.Waived{{Finding: checks.Finding{Check: "ib-links", Verdict: checks.Fail, Nodes: []string{evil}, Summary: evil, At: evil}, Reason: evil, Owner: evil, Until: evil, At: evil + ":1"}},
		Diff: []checks.FactDiff{{Fact: "env." + evil, Groups: []checks.FactGroup{
			{Value: []byte(`"` + strings.Repeat("|x", 4) + `"`), Nodes: []string{evil}}, {Nodes: []string{"w2"}},
		}}},
	}
}

// strict is a run that nothing but warnings failed.
func strict() checks.Report {
	r := failing()
	r.Strict = true
	r.Findings = r.Findings[4:]
	r.Checks = []checks.Outcome{{Check: "env-sane", Verdict: checks.Warn, Severity: checks.Warning}}
	return r
}

// interrupted is a run in which no check could say what the exit code says.
func interrupted() checks.Report {
	r := passing()
	r.Interrupted, r.Verdict, r.ExitCode = true, checks.Unknown, 2
	return r
}

// blind is a run that could tell nothing, and has no finding that says so.
func blind() checks.Report {
	r := passing()
	r.Verdict, r.ExitCode = checks.Unknown, 2
	r.Checks = []checks.Outcome{{Check: "ssh-login", Verdict: checks.Unknown, Reason: "w1 not reached"}, {Check: "shm-size", Verdict: checks.Unknown, Reason: "w1 not reached"}}
	return r
}

// orphaned is a run with a finding of a check that is not listed.
func orphaned() checks.Report {
	r := passing()
	r.Verdict, r.ExitCode = checks.Fail, 1
	r.Findings = []checks.Finding{{Check: "drift", Verdict: checks.Fail, Nodes: []string{"w1"}, Summary: "it moved"}}
	return r
}

// waiving is a run in which one defect is waived on some of its nodes and another on all.
func waiving() checks.Report {
	r := failing()
	r.Policy, r.Began = "preflight.yaml", "2026-11-21T19:20:00Z"
	r.Checks = append(r.Checks, checks.Outcome{Check: "path-mtu", Verdict: checks.Skip, Severity: checks.Error, Reason: checks.AllWaived})
	r.Findings = append(r.Findings, checks.Finding{Check: "expectation", Verdict: checks.Fail, Nodes: []string{"w3"}, Summary: "net.mtu is not what the policy states", At: "preflight.yaml:12"})
	r.Waived = []checks.Waived{
		{Finding: checks.Finding{Check: "shm-size", Verdict: checks.Fail, Nodes: []string{"w1"}, Summary: "/dev/shm is too small"},
			Reason: "docker's default", Owner: "ops", Until: "2026-12-31", At: "preflight.yaml:31"},
		{Finding: checks.Finding{Check: "path-mtu", Verdict: checks.Warn, Nodes: []string{"w2", "w3"}, Summary: "MTUs differ"},
			Reason: "new switch", Owner: "net", Until: "2027-01-15", At: "/etc/preflight.yaml:9"},
	}
	return r
}

// cases are runs that every renderer must tell right.
func cases() map[string]checks.Report {
	return map[string]checks.Report{
		"failing": failing(), "passing": passing(), "strict": strict(), "interrupted": interrupted(), "blind": blind(), "orphaned": orphaned(), "hostile": hostile(), "waiving": waiving(),
	}
}

func rendered(t *testing.T, render func(io.Writer, checks.Report) error, r checks.Report) string {
	t.Helper()
	var out bytes.Buffer
	if err := render(&out, r); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestOneThingTwice: a node that lists an interface or a GPU twice costs nobody the report,
// in any format, and is told in JSON as it was seen.
func TestOneThingTwice(t *testing.T) {
	r := recorded(t)
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
	judged := checks.Evaluate(checks.Catalogue, r.Fleet, r.Launch, checks.DefaultPolicy())
	for _, d := range judged.Diff {
		if len(d.Groups) < 2 {
			t.Errorf("%s does not differ: %v", d.Fact, d.Groups)
		}
	}
	for name, render := range map[string]func(io.Writer, checks.Report) error{
		"text": func(w io.Writer, r checks.Report) error { return Text(w, r, Style{Verbose: true}) }, "html": HTML, "markdown": MarkdownSummary,
		"junit": JUnit, "github": GitHub, "nagios": Nagios, "prometheus": Prometheus, "json": JSON[checks.Report], "good hosts": GoodHosts,
	} {
		if rendered(t, render, judged) == "" {
			t.Errorf("%s is empty", name)
		}
	}
}

// TestThousandNodes: what is handed on to somebody who drops what is too long is short
// enough, also where everything differs everywhere, and the verdict is still in it.
func TestThousandNodes(t *testing.T) {
	r := largeFleet(t, 1000)
	for i := range r.Nodes {
		r.Findings = append(r.Findings, checks.Finding{Check: "shm-size", Verdict: checks.Fail, Nodes: []string{r.Nodes[i].Name},
			Summary: "/dev/shm is too small", Fix: []string{"ssh " + r.Nodes[i].Name + " mount -o remount,size=1G /dev/shm"}})
	}
	r.Conclude(false)
	for name, c := range map[string]struct {
		render func(io.Writer, checks.Report) error
		most   int // bytes
		has    string
	}{
		"markdown": {MarkdownSummary, 65_536, "## FAIL: this launch will not work"},
		"github":   {GitHub, 64_000, "::error title=preflight::and "},
		"nagios":   {Nagios, 1024, "PREFLIGHT CRITICAL - this launch will not work"},
	} {
		if text := rendered(t, c.render, r); len(text) > c.most || !strings.Contains(text, c.has) {
			t.Errorf("%s has %d bytes, %d go: %.100q", name, len(text), c.most, text)
		}
	}
}

// TestNothingRaw: no format lets through what a terminal would obey.
func TestNothingRaw(t *testing.T) {
	for name, render := range map[string]func(io.Writer, checks.Report) error{
		"junit": JUnit, "markdown": MarkdownSummary, "github": GitHub, "nagios": Nagios, "prometheus": Prometheus,
	} {
		for _, r := range rendered(t, render, hostile()) {
			if r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 || strings.ContainsRune("\u202e\u200b\ufffe\uffff\U000e0001", r) {
				t.Errorf("%s holds the raw character %U", name, r)
			}
		}
	}
}

// obeyed is what runners of CI take for a command (actions/runner, ActionCommand.cs).
var obeyed = regexp.MustCompile(`(?m)^\s*::.*::|##\w*\[`)

// TestNothingObeyed: printed in a step, no report holds a command of a node's.
func TestNothingObeyed(t *testing.T) {
	said := "1.0\n::stop-commands::x\n  ::add-mask::a\n##[add-mask]a ##vso[task.complete]b ###[x]\n::error::" + strings.Repeat(" word ::warning::w", 40)
	r := hostile()
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
	for name, render := range map[string]func(io.Writer, checks.Report) error{
		"text": func(w io.Writer, r checks.Report) error { return Text(w, r, Style{Width: 40}) }, "json": JSON[checks.Report],
		"junit": JUnit, "markdown": MarkdownSummary, "nagios": Nagios, "prometheus": Prometheus,
		"changes": func(w io.Writer, r checks.Report) error {
			return ChangesText(w, Changed{Changes: []checks.Change{{Node: "w1", Fact: said, Before: value}}}, Style{})
		},
	} {
		if text := rendered(t, render, r); obeyed.MatchString(text) {
			t.Errorf("%s: a runner would obey %.60q", name, obeyed.FindAllString(text, 3))
		}
	}
	back, err := Read(strings.NewReader(rendered(t, JSON[checks.Report], r)))
	if err != nil || back.Findings[0].Got != said {
		t.Errorf("JSON brings back %q (%v)", back.Findings[0].Got, err)
	}
	for _, harmless := range []string{"::1", "2001:db8::1", "a ::error::b", "std::vector", "[2001:db8::1]:29500 a::b", "## [x]"} {
		if got := unobeyed(harmless); got != harmless {
			t.Errorf("%q became %q", harmless, got)
		}
	}
}
