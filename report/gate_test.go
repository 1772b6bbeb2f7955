package report

import (
	"bytes"
	"io"
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
		"failing": failing(), "passing": passing(), "strict": strict(), "interrupted": interrupted(), "orphaned": orphaned(), "hostile": hostile(), "waiving": waiving(),
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

func TestWarningsFail(t *testing.T) {
	for name, want := range map[string]bool{"failing": false, "passing": false, "strict": true, "interrupted": false, "orphaned": false, "waiving": false} {
		if got := warningsFail(cases()[name]); got != want {
			t.Errorf("%s: %t", name, got)
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
