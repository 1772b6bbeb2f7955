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
	"preflight/checks/catalogue"
	"preflight/checks/compare"
	"preflight/checks/engine"
	"preflight/facts"
	"preflight/testhosts/fleettest"
	"preflight/testhosts/reporttest"
)

func group(value string, nodes ...string) checks.FactGroup {
	return checks.FactGroup{Value: json.RawMessage(value), Nodes: nodes}
}

func TestFoldEntries(t *testing.T) {
	odd := func(fact, value string) checks.FactDiff {
		return checks.FactDiff{Fact: fact, Groups: []checks.FactGroup{group("null", "w1", "w3"), group(value, "w2")}}
	}
	mtu := checks.FactDiff{Fact: "net.interfaces.eth0.100.mtu", Groups: []checks.FactGroup{group("1500", "w1"), group("9000", "w2")}}
	folded := foldEntries([]checks.FactDiff{
		odd("env.vars.NCCL_DEBUG.name", `"NCCL_DEBUG"`), odd("env.vars.NCCL_DEBUG.value", `"INFO"`),
		odd("ib.devices.mlx5_1.name", `"mlx5_1"`), odd("ib.devices.mlx5_1.ports.1.port", "1"), odd("ib.devices.mlx5_1.ports.1.state", `"ACTIVE"`),
		odd("net.interfaces.docker0.mtu", "1500"), odd("net.interfaces.docker0.name", `"docker0"`), odd("net.interfaces.docker0.up", "true"),
		mtu,
		odd("net.interfaces.eth0.100.driver", `"8021q"`), odd("net.interfaces.eth0.100.kind", `"vlan"`), odd("net.interfaces.eth0.100.name", `"eth0.100"`),
		odd("python.packages.apex", `"0.1"`), odd("python.packages.dllogger", `"1.0"`),
	})
	present := `"present"`
	want := []checks.FactDiff{
		odd("env.vars.NCCL_DEBUG.value", `"INFO"`),
		odd("ib.devices.mlx5_1", present), odd("net.interfaces.docker0", present), mtu, odd("net.interfaces.eth0.100", present),
		odd("python.packages.apex", `"0.1"`), odd("python.packages.dllogger", `"1.0"`),
	}
	if diff := cmp.Diff(want, folded); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEntriesAreWholeWithVerbose(t *testing.T) {
	r := reporttest.Failing()
	r.Diff = []checks.FactDiff{
		{Fact: "net.interfaces.docker0.mtu", Groups: []checks.FactGroup{group("null", "w1"), group("1500", "w2")}},
		{Fact: "net.interfaces.docker0.up", Groups: []checks.FactGroup{group("null", "w1"), group("true", "w2")}},
		{Fact: "net.interfaces.docker0.name", Groups: []checks.FactGroup{group("null", "w1"), group(`"docker0"`, "w2")}},
	}
	for verbose, want := range map[bool]string{false: "docker0  ", true: "docker0.mtu"} {
		var out bytes.Buffer
		if err := Text(&out, r, Style{Verbose: verbose}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "net.interfaces."+want) {
			t.Errorf("verbose %t lacks %q:\n%s", verbose, want, &out)
		}
	}
}

// TestSizesThatLookEqual checks that two sizes which round to the same text are shown in bytes.
func TestSizesThatLookEqual(t *testing.T) {
	r := reporttest.Failing()
	r.Diff = []checks.FactDiff{{Fact: "shm.size", Groups: []checks.FactGroup{group("12884901888", "w1"), group("12884901000", "w2")}}}
	var out bytes.Buffer
	if err := Text(&out, r, Style{Verbose: true}); err != nil || !strings.Contains(out.String(), "12884901888") || !strings.Contains(out.String(), "12884901000") {
		t.Errorf("%v:\n%s", err, &out)
	}
}

// TestQuietSaysWhyItCannotTell checks that quiet mode still prints why the verdict is unknown.
func TestQuietSaysWhyItCannotTell(t *testing.T) {
	r := reporttest.Passing()
	r.Verdict = checks.Unknown
	r.Checks = append(r.Checks, checks.Outcome{Check: "ssh-login", Verdict: checks.Unknown, Reason: "w1 not reached"})
	var out bytes.Buffer
	if err := Text(&out, r, Style{Quiet: true}); err != nil {
		t.Fatal(err)
	}
	if want := "\n\nunknown       ssh-login: w1 not reached\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("lacks %q:\n%s", want, &out)
	}
}

func TestTwoNodesAreNamed(t *testing.T) {
	for fleet, want := range map[int]string{2: "w[1-2]", 3: "all 3 nodes"} {
		p := &page{Words: Words{fleet: fleet}}
		if got := p.Nodes([]string{"w1", "w2", "w3"}[:fleet]); got != want {
			t.Errorf("all of %d: %q, want %q", fleet, got, want)
		}
	}
}

func TestChangesOnANarrowPage(t *testing.T) {
	changes := []checks.Change{
		{Node: "w1", Fact: "host.kernel", Before: json.RawMessage(`"5.15.0"`), After: json.RawMessage(`"6.8.0"`)},
		{Node: "w2", Before: json.RawMessage(`"reached"`), After: json.RawMessage(`"not reached: timed-out"`)},
	}
	var out bytes.Buffer
	if err := ChangesText(&out, Changed{Changes: changes}, Style{Width: 30}); err != nil {
		t.Fatal(err)
	}
	want := `w1  host.kernel
  5.15.0 → 6.8.0
w2
  reached → not reached:
    timed-out
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestDriftIsOneTable checks that all drift findings are one block with the gravest rows first.
// Nodes with the same change must share a row. A change that repeats another fact must have no row.
func TestDriftIsOneTable(t *testing.T) {
	was := func(text string) json.RawMessage { return json.RawMessage(text) }
	driver := func(node string) []checks.Change {
		return []checks.Change{
			{Node: node, Fact: "gpu.module", Before: was(`"550.54.15"`), After: was(`"570.86.15"`)},
			{Node: node, Fact: "nvml.driver", Before: was(`"550.54.15"`), After: was(`"570.86.15"`)},
		}
	}
	accept := "preflight snapshot -H hostfile --accept FACT -o golden.json"
	findings := []checks.Finding{
		{Check: "gpu-driver-same", Verdict: checks.Fail, Nodes: []string{"w1"}, Summary: "drivers differ", Fix: []string{"the fix"}},
		{Check: "drift", Verdict: checks.Fail, Nodes: []string{"w1", "w3"}, Changes: append(driver("w1"), driver("w3")...), SharesCause: "gpu-driver-same", Fix: []string{"# see", "the fix", accept}},
		{Check: "drift", Verdict: checks.Warn, Nodes: []string{"w2"}, Changes: []checks.Change{{Node: "w2", Fact: "host.hostname", Before: was(`"w2"`), After: was(`"w2-old"`)}}, Fix: []string{"ssh w2 hostnamectl", accept}, WouldSee: "it hangs"},
		{Check: "drift", Verdict: checks.Fail, Nodes: []string{"w2"}, Facts: []string{"shm.size"}, Changes: []checks.Change{
			{Node: "w2", Fact: "shm.size", Before: was("17179869184"), After: was("1073741824")}, {Node: "w2", Fact: "shm.mode", Before: was(`"1777"`), After: was(`"0777"`)},
		}, Fix: []string{"remount", accept}},
	}
	r := checks.Report{Verdict: checks.Fail, Findings: findings, Checks: []checks.Outcome{{Check: "drift", Verdict: checks.Fail}}}
	for _, name := range []string{"w1", "w2", "w3"} {
		r.Nodes = append(r.Nodes, facts.Node{Name: name, Reached: true})
	}
	var out bytes.Buffer
	if err := Text(&out, r, Style{Quiet: true}); err != nil {
		t.Fatal(err)
	}
	want := `3 nodes, 1 check failed

FAIL  this launch will not work: 1 problem on w1; does not match the policy or the baseline: 1 problem on w2

     CHECK            NODES        PROBLEM
  1  gpu-driver-same  w1           drivers differ
  2  drift            all 3 nodes  4 changes since the baseline

1  FAIL  gpu-driver-same  w1: drivers differ
   fix        the fix

2  FAIL  drift  4 changes since the baseline
      nodes   fact           before     after      see
FAIL  w[1,3]  nvml.driver    550.54.15  570.86.15  gpu-driver-same
FAIL  w2      shm.size       16 GiB     1.0 GiB
WARN  w2      host.hostname  w2         w2-old
WARN  w2      shm.mode       1777       0777
   fix        ssh w2 hostnamectl
              remount
              preflight snapshot -H hostfile --accept FACT -o golden.json
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestDriftWithoutACommand checks that a finding whose command was replaced by a note, because of a
// hostile host name, still has its own row.
func TestDriftWithoutACommand(t *testing.T) {
	changes := []checks.Change{{Node: "w1", Fact: "shm.size", Before: json.RawMessage("17179869184"), After: json.RawMessage("1073741824")}}
	r := checks.Report{Verdict: checks.Fail, Findings: []checks.Finding{
		{Check: "drift", Verdict: checks.Fail, Nodes: []string{"w1"}, Changes: changes, SharesCause: "shm-size", Notes: []string{"in words"}},
	}}
	var out bytes.Buffer
	if err := Text(&out, r, Style{Quiet: true}); err != nil {
		t.Fatal(err)
	}
	if want := "FAIL  w1     shm.size  16 GiB  1.0 GiB  shm-size\n"; !strings.Contains(out.String(), want) {
		t.Errorf("lacks %q:\n%s", want, &out)
	}
}

func TestFoldSiblings(t *testing.T) {
	differs := func(fact, mine, others string) checks.FactDiff {
		return checks.FactDiff{Fact: fact, Groups: []checks.FactGroup{group(others, "w1", "w3"), group(mine, "w2")}}
	}
	got := compare.FoldSiblings([]checks.FactDiff{
		differs("gpu.doors./dev/nvidia0.problem", `"EPERM"`, "null"), differs("gpu.doors./dev/nvidia10.problem", `"EPERM"`, "null"),
		differs("host.kernel", `"6.1"`, `"6.2"`),
		differs("nvml.cards.0.clock.app_sm", "1410", "0"), differs("nvml.cards.0.power.limit", "300", "700"), differs("nvml.cards.1.power.limit", "300", "700"),
		differs("nvml.cards.2.power.limit", "400", "700"), differs("nvml.cards.3.power.limit", "300", "700"),
		differs("python.packages.nvidia-cublas-cu12", `"12"`, "null"), differs("python.packages.nvidia-cublas-cu11", `"11"`, "null"),
		differs("x.007.y", "1", "2"), differs("x.008.y", "1", "2"),
	})
	want := []checks.FactDiff{
		differs("gpu.doors./dev/nvidia[0,10].problem", `"EPERM"`, "null"),
		differs("host.kernel", `"6.1"`, `"6.2"`),
		differs("nvml.cards.0.clock.app_sm", "1410", "0"), differs("nvml.cards.[0-1,3].power.limit", "300", "700"),
		differs("nvml.cards.2.power.limit", "400", "700"),
		differs("python.packages.nvidia-cublas-cu12", `"12"`, "null"), differs("python.packages.nvidia-cublas-cu11", `"11"`, "null"),
		differs("x.007.y", "1", "2"), differs("x.008.y", "1", "2"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestChangesAreFolded checks that several missing GPUs share one row.
func TestChangesAreFolded(t *testing.T) {
	var changes []checks.Change
	for _, card := range []string{"nvml.cards.0", "nvml.cards.1"} {
		changes = append(changes, checks.Change{Node: "w2", Fact: card, Before: json.RawMessage(`"present"`)})
	}
	for _, style := range []Style{{}, {Verbose: true}} {
		var out bytes.Buffer
		if err := ChangesText(&out, Changed{Changes: changes}, style); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), "nvml.cards.[0-1] "); got == style.Verbose {
			t.Errorf("verbose %t:\n%s", style.Verbose, out.String())
		}
	}
}

// TestRenamedInterfaceIsOneDifference checks that an interface with another name is recognized by
// its networks.
func TestRenamedInterfaceIsOneDifference(t *testing.T) {
	diffs := func(usual, other string) []checks.FactDiff {
		return []checks.FactDiff{
			{Fact: "net.interfaces." + other, Groups: []checks.FactGroup{group("null", "w1", "w2"), group(`"present"`, "w3")}},
			{Fact: "net.interfaces." + usual, Groups: []checks.FactGroup{group(`"present"`, "w1", "w2"), group("null", "w3")}},
		}
	}
	var w Words
	for i, name := range []string{"eth0", "eth0", "enp4s0"} {
		nic := facts.Interface{Name: name, Addresses: []string{fmt.Sprintf("10.0.0.%d/24", i+1), "fe80::1/64"}}
		mgmt := facts.Interface{Name: "mgmt" + fmt.Sprint(i/2), Addresses: []string{fmt.Sprintf("10.%d.0.9/24", 1+i/2)}}
		w.report.Nodes = append(w.report.Nodes, facts.Node{Name: fmt.Sprint("w", i+1), Facts: facts.Facts{Net: &facts.Net{Interfaces: []facts.Interface{nic, mgmt}}}})
	}
	want := []checks.FactDiff{{Fact: "net.interfaces.eth0", Groups: []checks.FactGroup{group(`"eth0"`, "w1", "w2"), group(`"enp4s0"`, "w3")}}}
	if diff := cmp.Diff(want, w.foldRenamed(diffs("eth0", "enp4s0"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(diffs("mgmt0", "mgmt1"), w.foldRenamed(diffs("mgmt0", "mgmt1"))); diff != "" {
		t.Errorf("of other networks (-want +got):\n%s", diff)
	}
}

// TestCoveredFactsAreNoDifference checks that a fact has no row if a finding covers the fact or if
// the fact repeats another fact.
func TestCoveredFactsAreNoDifference(t *testing.T) {
	odd := func(fact string, nodes ...string) checks.FactDiff {
		return checks.FactDiff{Fact: fact, Groups: []checks.FactGroup{group(`"a"`, "w1", "w2"), group(`"b"`, nodes...)}}
	}
	r := checks.Report{
		Findings: []checks.Finding{
			{Check: "gpu-driver-loads", Verdict: checks.Fail, Nodes: []string{"w3"}, Covers: []string{"nvml", "gpu.module"}},
			{Check: "gpu-driver-loads", Verdict: checks.Fail, Nodes: []string{"w4"}, Covers: []string{"nvml", "gpu.module"}},
		},
		Diff: []checks.FactDiff{
			odd("gpu.module", "w3"), odd("gpu.modules", "w3"), odd("nvml.cards.0.name", "w3", "w4"), odd("nvml.cards.1.name", "w3", "w5"),
			odd("python.packages.torch", "w3"), odd("python.torch.version", "w3"),
			{Fact: "nvml.driver", Groups: []checks.FactGroup{group(`""`, "w3", "w4"), group(`"550"`, "w1")}},
			{Fact: "nvml.cuda", Groups: []checks.FactGroup{group(`"12.4"`, "w1"), group(`"12.2"`, "w2"), group(`""`, "w3")}},
		},
	}
	var got []string
	for _, d := range (Words{report: r}).Unshown() {
		got = append(got, d.Fact)
	}
	if diff := cmp.Diff([]string{"gpu.modules", "nvml.cards.1.name", "python.packages.torch", "nvml.cuda"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestMissingFilesAreNoDifference checks that the facts of a missing script or working directory
// have no rows beside the finding.
func TestMissingFilesAreNoDifference(t *testing.T) {
	for id, lose := range map[string]func(*facts.Files){
		"script-same": func(f *facts.Files) {
			f.Files[0] = facts.File{LaunchFile: f.Files[0].LaunchFile}
			f.Sources, f.Repository = nil, nil
		},
		"workdir-present": func(f *facts.Files) { *f = facts.Files{WorkDir: facts.WorkDir{Path: f.WorkDir.Path}} },
	} {
		fleet := fleettest.Healthy(4)
		lose(fleet.Nodes[2].Files)
		check, _ := catalogue.Lookup(id)
		r := engine.Evaluate([]checks.Check{check}, fleet.Fleet, fleet.Launch, checks.DefaultPolicy())
		if len(r.Findings) != 1 || len(r.Diff) == 0 {
			t.Errorf("%s: findings %+v, differences %+v", id, r.Findings, r.Diff)
		}
		for _, d := range (Words{report: r}).Unshown() {
			t.Errorf("%s: a row for %s", id, d.Fact)
		}
	}
}

// TestWhatMostHaveIsShownWhereAllOfThemAreNamed checks that a finding also shows the value of the
// largest group if it names all nodes of that group.
func TestWhatMostHaveIsShownWhereAllOfThemAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		named []string
		shown int
	}{"the one of two": {[]string{"w1"}, 0}, "all of most": {[]string{"w1", "w2"}, 0}, "one of most": {[]string{"w1"}, 1}} {
		most := []string{"w1"}
		if name != "the one of two" {
			most = []string{"w1", "w2"}
		}
		r := checks.Report{
			Findings: []checks.Finding{{Check: "shm-size", Verdict: checks.Warn, Nodes: c.named, Got: "64 MiB"}},
			Diff:     []checks.FactDiff{{Fact: "shm.size", Groups: []checks.FactGroup{group("67108864", most...), group("17179869184", "w3")}}},
		}
		if got := len((Words{report: r}).Unshown()); got != c.shown {
			t.Errorf("%s: %d differences are shown, want %d", name, got, c.shown)
		}
	}
}
