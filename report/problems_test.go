// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
	"preflight/testhosts/reporttest"
)

func textOf(t *testing.T, r checks.Report, style Style) string {
	t.Helper()
	var out bytes.Buffer
	if err := Text(&out, r, style); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// fleetOf returns a report over the nodes in names. The nodes in unreached were not reached.
func fleetOf(names, unreached string) checks.Report {
	r := checks.Report{Verdict: checks.Fail, ExitCode: 1}
	for name := range strings.FieldsSeq(names) {
		r.Nodes = append(r.Nodes, facts.Node{Name: name, Reached: !strings.Contains(" "+unreached+" ", " "+name+" ")})
	}
	return r
}

// TestCommandsStandUnderTheirRoles checks the labels of commands. The lines of a cure are labelled
// fix and then, every alternative has its own label, and a command without a role counts as a fix.
func TestCommandsStandUnderTheirRoles(t *testing.T) {
	f := checks.Finding{
		Check: "shm-size", Verdict: checks.Fail, Nodes: []string{"w2"}, Summary: "too small",
		Fix:   []string{"df", "du", "mount", "fstab", "mkdir", "reboot", "docker", "no role"},
		Roles: []fix.Role{fix.Look, fix.Look, fix.Fix, fix.Then, fix.Then, fix.Or, fix.Or},
	}
	r := fleetOf("w1 w2", "")
	r.Findings = []checks.Finding{f}
	want := `FAIL  shm-size  w2: too small
   look       df
              du
   fix        mount
   then       fstab
   then       mkdir
   or         reboot
   or         docker
   fix        no role
`
	if text := textOf(t, r, Style{Quiet: true}); !strings.HasSuffix(text, want) {
		t.Errorf("want\n%s\ngot\n%s", want, text)
	}
	if diff := cmp.Diff([]string{"mount", "fstab", "mkdir", "no role"}, Cure(Steps(f))); diff != "" {
		t.Errorf("the cure (-want +got):\n%s", diff)
	}
	pastes := []Paste{{"look", []string{"df", "du"}}, {"fix", []string{"mount", "fstab", "mkdir"}}, {"or", []string{"reboot"}}, {"or", []string{"docker"}}, {"fix", []string{"no role"}}}
	if diff := cmp.Diff(pastes, Pastes(Steps(f))); diff != "" {
		t.Errorf("what is copied together (-want +got):\n%s", diff)
	}
}

// TestUnitedFindingsKeepTheRoles checks the commands of joined unknowns and of changes since a
// baseline.
func TestUnitedFindingsKeepTheRoles(t *testing.T) {
	unknown := func(check string, commands []string, roles ...fix.Role) checks.Finding {
		return checks.Finding{Check: check, Verdict: checks.Unknown, Nodes: []string{"w1"}, Summary: "no answer", Fix: commands, Roles: roles}
	}
	drift := func(shares string, commands []string, roles ...fix.Role) checks.Finding {
		return checks.Finding{Check: "drift", Verdict: checks.Fail, Nodes: []string{"w1"}, SharesCause: shares, Changes: []checks.Change{{Node: "w1", Fact: "shm.size"}}, Fix: commands, Roles: roles}
	}
	r := fleetOf("w1 w2", "")
	r.Findings = []checks.Finding{
		unknown("a", []string{"ping", "restart"}, fix.Look, fix.Fix), unknown("b", []string{"ping", "reboot"}, fix.Look, fix.Or),
		drift("", []string{"mount", "accept"}, fix.Fix, fix.Or), drift("shm-size", []string{"again", "accept"}, fix.Fix, fix.Or),
	}
	var got [][]Step
	for _, p := range WordsOf(r).Problems(false) {
		got = append(got, Steps(p.Finding))
	}
	want := [][]Step{{{fix.Fix, "mount"}, {fix.Or, "accept"}}, {{fix.Look, "ping"}, {fix.Fix, "restart"}, {fix.Or, "reboot"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestProblemsAreSorted checks the order of problems. Problems of the whole launch come first,
// followed by problems of nodes that were not reached, then problems of other nodes. Failures come
// before unknowns, and unknowns before warnings.
func TestProblemsAreSorted(t *testing.T) {
	r := fleetOf("w1 w2 w3", "w2")
	r.Head = &facts.Node{Name: "launching machine"}
	found := func(check string, verdict checks.Verdict, nodes ...string) {
		r.Findings = append(r.Findings, checks.Finding{Check: check, Verdict: verdict, Nodes: nodes, Summary: check})
	}
	found("ssh-shell", checks.Warn, "w1")
	found("torch-same", checks.Unknown, "w3")
	found("shm-size", checks.Fail, "w1")
	found("ssh-reach", checks.Fail, "w2")
	found("launcher-ready", checks.Fail, "launching machine")
	found("clock-skew", checks.Warn, "w1", "w2", "w3")
	found("master-address", checks.Fail, "w1")
	found("policy", checks.Fail)
	r.Findings = append(r.Findings, checks.Finding{Check: "drift", Verdict: checks.Fail, Nodes: []string{"w1"}, SharesCause: "shm-size", Changes: []checks.Change{{Node: "w1", Fact: "shm.size"}}})
	var got []string
	for _, p := range WordsOf(r).Problems(false) {
		got = append(got, p.Mark+" "+p.Check)
	}
	want := []string{"1 launcher-ready", "2 master-address", "3 policy", "4 ssh-reach", "5 shm-size", "? torch-same", "! clock-skew", "! ssh-shell"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, line := range strings.Split(textOf(t, r, Style{Width: 60}), "\n") {
		if strings.HasPrefix(line, "  5  ") && line != "  5  shm-size        w1                     shm-size" {
			t.Errorf("a row of the table is %q", line)
		}
	}
}

// TestChangeThatBreaksThePolicyIsOneProblem checks that a changed fact counts once if the policy
// states another value. It counts as the finding about the expectation.
func TestChangeThatBreaksThePolicyIsOneProblem(t *testing.T) {
	r := fleetOf("w1 w2", "")
	change := checks.Change{Node: "w2", Fact: "shm.size", Before: []byte("68719476736"), After: []byte("67108864")}
	drift := checks.Finding{Check: "drift", Verdict: checks.Fail, Nodes: []string{"w2"}, Want: "shm.size 64 GiB", Fix: []string{"remount", "accept"}, Changes: []checks.Change{change}}
	stated := checks.Finding{Check: "expectation", Verdict: checks.Fail, Nodes: []string{"w2"}, Fact: "shm.size", Summary: "too small"}
	elsewhere := stated
	elsewhere.Nodes = []string{"w1"}
	for name, c := range map[string]struct {
		findings []checks.Finding
		want     []string
		says     string
	}{
		"both":         {[]checks.Finding{drift, stated}, []string{"1 expectation"}, "does not match the policy or the baseline: 1 problem on w2"},
		"another node": {[]checks.Finding{drift, elsewhere}, []string{"1 expectation", "2 drift"}, "does not match the policy or the baseline: 2 problems on w[1-2]"},
	} {
		r.Findings = c.findings
		w := WordsOf(r)
		var got []string
		for _, p := range w.Problems(false) {
			got = append(got, p.Mark+" "+p.Check)
		}
		if diff := cmp.Diff(c.want, got); diff != "" || w.Conclusion() != c.says {
			t.Errorf("%s: %q (-want +got):\n%s", name, w.Conclusion(), diff)
		}
		if says := strings.Contains(textOf(t, r, Style{}), "the baseline has: shm.size 64 GiB"); says != (name == "both") {
			t.Errorf("%s: the finding about the expectation has the value of the baseline: %t", name, says)
		}
	}
}

// TestOneFactIsOneProblem checks that a finding shows what the policy and the baseline say about
// the same fact of the same nodes, with the gravest verdict. A graver finding about only some of
// its nodes stays separate.
func TestOneFactIsOneProblem(t *testing.T) {
	cause := func(verdict checks.Verdict, nodes ...string) checks.Finding {
		return checks.Finding{Check: "shm-size", Verdict: verdict, Nodes: nodes, Summary: "too small", Want: "at least 1 GiB", Fix: []string{"remount"}, Roles: []fix.Role{fix.Fix}}
	}
	stated := checks.Finding{Check: "expectation", Verdict: checks.Fail, Nodes: []string{"w2"}, Fact: "shm.size", Want: "shm.size >= 1 GiB (p:1)", At: "p:1", SharesCause: "shm-size",
		Fix: []string{"remount", "edit"}, Roles: []fix.Role{fix.Fix, fix.Or}}
	drift := checks.Finding{Check: "drift", Verdict: checks.Fail, Nodes: []string{"w2"}, Want: "shm.size 2 GiB", SharesCause: "shm-size",
		Changes: []checks.Change{{Node: "w2", Fact: "shm.size"}}, Fix: []string{"remount", "accept"}, Roles: []fix.Role{fix.Fix, fix.Or}}
	const all = "at least 1 GiB\nthe policy wants: shm.size >= 1 GiB (p:1)\nthe baseline has: shm.size 2 GiB"
	for name, c := range map[string]struct {
		cause checks.Finding
		want  []Problem
		says  string
	}{
		"a failure": {cause(checks.Fail, "w2"), []Problem{{Mark: "1", Finding: checks.Finding{Check: "shm-size", Verdict: checks.Fail, Want: all, Fix: []string{"remount"}}}},
			"this launch will not work: 1 problem on w2"},
		"a warning": {cause(checks.Warn, "w2"), []Problem{{Mark: "1", Finding: checks.Finding{Check: "shm-size", Verdict: checks.Fail, Want: all, Fix: []string{"remount", "edit", "accept"}}}},
			"does not match the policy or the baseline: 1 problem on w2"},
		"a failure of more nodes": {cause(checks.Fail, "w1", "w2"), []Problem{{Mark: "1", Finding: checks.Finding{Check: "shm-size", Verdict: checks.Fail,
			Want: strings.NewReplacer("wants:", "wants for w2:", "has:", "has for w2:").Replace(all), Fix: []string{"remount"}}}}, "this launch will not work: 1 problem on w[1-2]"},
		"a warning of more nodes": {cause(checks.Warn, "w1", "w2"), []Problem{
			{Mark: "1", Finding: checks.Finding{Check: "expectation", Verdict: checks.Fail, Want: stated.Want + "\nthe baseline has: shm.size 2 GiB", Fix: []string{"remount", "edit", "accept"}}},
			{Mark: "!", Finding: checks.Finding{Check: "shm-size", Verdict: checks.Warn, Want: "at least 1 GiB", Fix: []string{"remount"}}},
		}, "does not match the policy or the baseline: 1 problem on w2"},
	} {
		r := fleetOf("w1 w2 w3", "")
		r.Verdict, r.Findings = checks.Fail, []checks.Finding{drift, stated, c.cause}
		if name == "a warning of more nodes" { // as the change has no other cause
			r.Findings[0].SharesCause = ""
		}
		w := WordsOf(r)
		var got []Problem
		for _, p := range w.Problems(false) {
			got = append(got, Problem{Mark: p.Mark, Finding: checks.Finding{Check: p.Check, Verdict: p.Verdict, Want: p.Want, Fix: p.Fix}})
		}
		if diff := cmp.Diff(c.want, got); diff != "" || w.Conclusion() != c.says {
			t.Errorf("%s: %q (-want +got):\n%s", name, w.Conclusion(), diff)
		}
	}
}

// TestTheTableIsCutToThePage checks that every problem takes one line of the table.
func TestTheTableIsCutToThePage(t *testing.T) {
	r := reporttest.Failing()
	for i := range r.Findings {
		r.Findings[i].Summary = strings.Repeat("a long story\n", 20)
	}
	for line := range strings.Lines(strings.SplitN(textOf(t, r, Style{Width: 70}), "\n\n", 4)[2]) {
		if n := columnsOf(strings.TrimSuffix(line, "\n")); n > 70 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
}

// TestTwoNodesHaveTheirOwnColumns checks the header of the differences between two nodes.
func TestTwoNodesHaveTheirOwnColumns(t *testing.T) {
	r := fleetOf("w1 w2", "")
	r.Diff = []checks.FactDiff{
		{Fact: "host.kernel", Groups: []checks.FactGroup{group(`"6.8"`, "w2"), group(`"6.1"`, "w1")}},
		{Fact: "shm.size", Groups: []checks.FactGroup{group("67108864", "w1"), group("null", "w2")}},
	}
	want := "differs      w1      w2\nhost.kernel  6.1     6.8\nshm.size     64 MiB  absent\n"
	if text := textOf(t, r, Style{}); !strings.Contains(text, want) {
		t.Errorf("no\n%s\nin\n%s", want, text)
	}
}

// TestBusyMachineIsARemark checks that the report names a busy launching machine below line 1 and
// not in the verdict.
func TestBusyMachineIsARemark(t *testing.T) {
	r := reporttest.Passing()
	r.Behind, r.StoodStill = 2.5, []float64{40}
	lines := strings.Split(textOf(t, r, Style{Width: 300}), "\n")
	if !strings.Contains(lines[1], "stood still for 40 s") || !strings.Contains(lines[2], "was busy") || !strings.Contains(lines[2], "2.5 s late") {
		t.Errorf("lines 2 and 3 are %q", lines[1:3])
	}
	if got := WordsOf(r).Conclusion(); got != "ready to launch" {
		t.Errorf("the verdict is %q", got)
	}
}

// TestDeepSpeedIsNamedWhereItIsInSight checks that line 1 names DeepSpeed only if something shows
// that the launch uses DeepSpeed.
func TestDeepSpeedIsNamedWhereItIsInSight(t *testing.T) {
	installed := facts.Node{Name: "w1", Facts: facts.Facts{Python: &facts.Python{Packages: map[string]string{"deepspeed": "0.16.4"}}}}
	for name, c := range map[string]struct {
		change func(*checks.Report)
		want   bool
	}{
		"nothing shows it":  {func(*checks.Report) {}, false},
		"a script":          {func(r *checks.Report) { r.Launch.Script = "train.py" }, true},
		"a release":         {func(r *checks.Report) { r.Launch.DeepSpeed = "0.16.4" }, true},
		"a node has it":     {func(r *checks.Report) { r.Nodes[0] = installed }, true},
		"the launching one": {func(r *checks.Report) { r.Head = &installed }, true},
		"its launcher": {func(r *checks.Report) {
			r.Head = &facts.Node{Facts: facts.Facts{Launcher: &facts.Launcher{DeepSpeed: "/usr/bin/deepspeed"}}}
		}, true},
		"torchrun was typed":  {func(r *checks.Report) { r.Launch.Program, r.Launch.Rendezvous = "torchrun", launch.RendezvousStatic }, true},
		"no launch was named": {func(r *checks.Report) { r.Launch.Program = "" }, false},
	} {
		r := fleetOf("w1 w2", "")
		r.Launch = launch.Prediction{Program: launch.ProgramDeepSpeed, Launcher: "pdsh"}
		c.change(&r)
		if got := ProgramInSight(r); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
		if line, _, _ := strings.Cut(textOf(t, r, Style{}), "\n"); strings.Contains(line, "pdsh") != (c.want && r.Launch.Program == launch.ProgramDeepSpeed) {
			t.Errorf("%s: line 1 is %q", name, line)
		}
	}
}

// TestUsableNodes checks the row with the nodes that --good-hosts lists.
func TestUsableNodes(t *testing.T) {
	r := fleetOf("w1 w2 w3", "")
	r.Findings = []checks.Finding{{Check: "shm-size", Verdict: checks.Fail, Nodes: []string{"w2"}}}
	words := func() string { return WordsOf(r).Usable() }
	if got := words(); !strings.HasPrefix(got, "w[1,3] ") {
		t.Errorf("usable are %q", got)
	}
	r.Findings[0].Nodes = []string{"w1", "w2", "w3"}
	if got := words(); got != "none" {
		t.Errorf("usable are %q", got)
	}
	r.Findings[0] = checks.Finding{Check: "policy", Verdict: checks.Fail}
	if got := words(); got != "none, because policy fails for the whole launch" {
		t.Errorf("usable are %q", got)
	}
	r.Verdict = checks.Pass
	if got := words(); got != "" {
		t.Errorf("all are usable, and it says %q", got)
	}
}
