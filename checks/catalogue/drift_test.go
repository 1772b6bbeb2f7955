// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/checks/engine"
	"preflight/checks/fix"
	"preflight/checks/gpu"
	"preflight/checks/host"
	"preflight/checks/software"
	"preflight/facts"
	"preflight/testhosts/fleettest"
)

// mutants visits every single change of a JSON tree: another value, a removed entry, and an added
// list entry. It passes the path of the change to visit, and undoes the change after the visit.
func mutants(path string, tree any, set func(any), visit func(path string)) {
	try := func(what string, value any) {
		set(value)
		visit(path + " " + what)
		set(tree)
	}
	try("gone", nil)
	switch v := tree.(type) {
	case map[string]any:
		more := maps.Clone(v)
		more["added"] = "1"
		try("and one more", more)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			mutants(path+"."+name, v[name], func(value any) { v[name] = value }, visit)
		}
	case []any:
		for i := range v {
			mutants(fmt.Sprintf("%s[%d]", path, i), v[i], func(value any) { v[i] = value }, visit)
		}
		if len(v) > 0 {
			try("shorter", v[1:])
			try("longer", append(slices.Clone(v), v[0]))
		}
	case string:
		try("other", v+"7")
		try("blank", "")
	case json.Number:
		try("more", v+"1")
		try("none", 0)
	case bool:
		try("not", !v)
	}
}

// treeOf returns the facts as the maps and lists of their JSON.
func treeOf(t *testing.T, f any) (tree map[string]any) {
	t.Helper()
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // float64 cannot represent all of the numbers
	if err := decoder.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// withSection returns the facts with one section read from a tree. It returns false if the types in
// the tree do not fit.
func withSection(f facts.Facts, section facts.Section, tree any) (facts.Facts, bool) {
	f.Take(section, facts.Facts{})
	text, err := json.Marshal(map[facts.Section]any{section: tree})
	return f, err == nil && json.Unmarshal(text, &f) == nil
}

// plainFleet returns a fleet with one node that has facts of every kind, in short lists.
func plainFleet() fleettest.Fleet {
	fleet := fleettest.Healthy(1)
	node := &fleet.Nodes[0]
	node.NVML.Cards = node.NVML.Cards[:2]
	node.Net.Interfaces[1].Kind = "veth" // the kind of an interface in a container
	node.Python.Packages["torch"] = node.Python.Torch.Version
	node.Python.Packages["apex"] = "0.1+built"
	return fleet
}

// TestAnyOneDrift compares a fleet with itself after any single change. The change is in the
// baseline or in the current run, on the node or on the launching machine. The result must be at
// most one finding, with a fix.
func TestAnyOneDrift(t *testing.T) {
	t.Parallel()
	judged := 0
	hold := func(what string, was, is fleettest.Fleet) {
		judged++
		policy := checks.DefaultPolicy()
		policy.Baseline = &checks.Baseline{File: "golden.json", Head: was.Head, Nodes: was.Nodes}
		findings := engine.Evaluate([]checks.Check{agreement.Drift}, is.Fleet, is.Launch, policy).Findings
		if len(findings) > 1 {
			t.Errorf("%s:\n%s", what, fleettest.Spelled(findings))
		}
		for _, finding := range findings {
			wellSpoken(t, finding)
			if fixes := strings.Join(finding.Fix, "\n"); strings.Contains(fixes, "absent") || finding.Verdict != checks.Unknown && finding.Got == finding.Want {
				t.Errorf("%s:\n%s\n%s", what, fleettest.Spelled(findings), fixes)
			}
		}
	}
	for _, onHead := range []bool{false, true} {
		same, other := plainFleet(), plainFleet()
		node := &other.Nodes[0]
		if onHead {
			node = other.Head
		}
		whole := node.Facts
		tree := treeOf(t, whole)
		for section := range tree {
			name := facts.Section(section)
			mutants(section, tree[section], func(value any) { tree[section] = value }, func(path string) {
				f, ok := withSection(whole, name, tree[section])
				if !ok {
					return
				}
				node.Facts = f
				hold(fmt.Sprintf("%s now, on the head %t", path, onHead), same, other)
				hold(fmt.Sprintf("%s then, on the head %t", path, onHead), other, same)
			})
		}
	}
	if judged < 1000 {
		t.Errorf("only %d fleets were judged", judged)
	}
}

// TestDriftExplained checks the note about a cause that another check reports on the node. It must
// be next to the command that accepts the change, and nowhere else.
func TestDriftExplained(t *testing.T) {
	for name, c := range map[string]struct {
		fixture string
		only    []string
		want    string // the note with the names of the checks, "" for none
	}{
		"a lost GPU":                       {"gpu-lost", []string{gpu.Healthy.ID, gpu.Count.ID}, "repair gpu-healthy in this report first"},
		"nobody looked at its health":      {"gpu-lost", []string{gpu.Count.ID}, ""},
		"a small /dev/shm":                 {"shm-smaller", []string{host.SHMSize.ID}, "repair shm-size in this report first"},
		"something else is wrong with it":  {"shm-smaller", []string{gpu.Healthy.ID}, ""},
		"another driver, which works well": {"driver", []string{gpu.DriverLoads.ID, gpu.Healthy.ID}, ""},
	} {
		fleet, policy := fixtureOf(t, agreement.Drift.ID, c.fixture).build(t)
		policy.Only = append(c.only, agreement.Drift.ID)
		named := 0
		report := engine.Evaluate(Catalogue, fleet.Fleet, fleet.Launch, policy)
		for _, f := range report.Findings {
			if f.Check != agreement.Drift.ID {
				continue
			}
			text := strings.Join(slices.Concat(f.Notes, f.Fix), "\n")
			if strings.Contains(text, "in this report first") != (c.want != "") || strings.Contains(text, "preflight checks gpu-healthy") && c.want != "" || !strings.Contains(text, c.want) {
				t.Errorf("%s: the fix is\n%s", name, text)
			}
			if last := f.Fix[len(f.Fix)-1]; !strings.HasPrefix(last, "preflight snapshot ") {
				t.Errorf("%s: the last fix is %s", name, last)
			}
			for _, cause := range report.Findings {
				if cause.Check == f.SharesCause && !strings.Contains(text, strings.Join(cause.Fix, "\n")) {
					t.Errorf("%s: the fix of %s is not in\n%s", name, f.SharesCause, text)
				}
			}
			if shares := f.SharesCause != ""; shares != (c.want != "") {
				t.Errorf("%s: shares its cause with %q", name, f.SharesCause)
			}
			named++
		}
		if named != 1 {
			t.Errorf("%s: %d drifts", name, named)
		}
	}
}

// TestDriftAgreesWithItsCause checks that drift, and the check that finds the nodes to differ, print
// the same cure: a baseline outweighs the majority of the nodes.
func TestDriftAgreesWithItsCause(t *testing.T) {
	for check, c := range map[string]struct{ fixture, right string }{
		software.PackagesSame.ID: {"baseline", "numpy==1.26.4"},
		software.ProtobufSame.ID: {"baseline", "protobuf=="},
		gpu.DriverSame.ID:        {"baseline", "550.54.15"},
		host.SHMSize.ID:          {"policy-and-baseline", "size="},
	} {
		fleet, policy := fixtureOf(t, check, c.fixture).build(t)
		policy.Only = []string{check, agreement.Drift.ID, agreement.Expectation.ID}
		report := engine.Evaluate(Catalogue, fleet.Fleet, fleet.Launch, policy)
		cures, drifts := map[string]bool{}, 0
		for _, f := range report.Findings {
			for i, command := range f.Fix {
				_, code, isHere := strings.Cut(command, c.right)
				if isHere && f.Roles[i] == fix.Fix {
					code, _, _ = strings.Cut(code, " ")
					cures[code] = true
				}
			}
			if f.Check != check {
				drifts++
				if f.SharesCause != check {
					t.Errorf("%s: %s shares its cause with %q", check, f.Check, f.SharesCause)
				}
			}
		}
		if len(cures) != 1 || drifts == 0 {
			t.Errorf("%s: the commands name %d versions after %q: %v; %d findings of drift and expectation", check, len(cures), c.right, cures, drifts)
		}
	}
}

// TestWrittenAnewByTheSameWay checks the command that records a new baseline. If the old baseline
// was recorded through srun, the command must use srun too.
func TestWrittenAnewByTheSameWay(t *testing.T) {
	fleet := fleettest.Healthy(2)
	was := checks.Baseline{File: "golden.json", Via: "srun", Nodes: fleettest.Healthy(1).Nodes}
	report := engine.Evaluate([]checks.Check{agreement.Drift}, fleet.Fleet, fleet.Launch, checks.Policy{Baseline: &was})
	if len(report.Findings) != 1 || !slices.ContainsFunc(report.Findings[0].Fix, func(line string) bool { return strings.Contains(line, "--via srun --normalize") }) {
		t.Errorf("%+v", report.Findings)
	}
}
