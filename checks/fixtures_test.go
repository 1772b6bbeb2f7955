package checks

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/launch"
)

// fixture is testdata/<check-id>/<name>.json: what is different from a healthy
// fleet, and what the check must say of it. Differences are JSON merge patches
// (RFC 7396): null removes, lists are replaced whole.
type fixture struct {
	About string `json:"about"`
	// Size is the number of nodes, named w1, w2 …; 4 when not given.
	Size int `json:"size"`
	// Nodes patches nodes by name; "*" is all of them and is applied first.
	Nodes map[string]any `json:"nodes"`
	// Stopped are nodes that could not be reached, with their ssh section.
	Stopped map[string]facts.SSH `json:"stopped"`
	// NotTried patches the sections that nobody misses.
	NotTried any `json:"not_tried"`
	Head     any `json:"head"`
	Launch   any `json:"launch"`
	Policy   any `json:"policy"`
	// Baseline patches the nodes of an earlier look at the healthy fleet, which has
	// BaselineSize of them, Size when not given; null leaves one out. nil is no baseline.
	Baseline     map[string]any `json:"baseline"`
	BaselineSize int            `json:"baseline_size"`
	BaselineHead any            `json:"baseline_head"` // patches its launching machine, nil for none
	// BaselineNotTried are the sections that nobody was to look at then.
	BaselineNotTried map[facts.Section]string `json:"baseline_not_tried"`
	Want             struct {
		Verdict  Verdict       `json:"verdict"`
		Reason   string        `json:"reason"` // what the reason of a skip or an unknown contains
		Findings []wantFinding `json:"findings"`
	} `json:"want"`
}

// wantFinding is one finding, in the order of the report.
type wantFinding struct {
	Verdict Verdict  `json:"verdict"`
	Nodes   []string `json:"nodes"`
	Has     []string `json:"has"`   // texts somewhere in summary, got, want, fix or would_see
	Lacks   []string `json:"lacks"` // texts nowhere in them
}

func TestFixtures(t *testing.T) {
	for _, check := range Catalogue {
		for _, path := range fixturesOf(t, check.ID) {
			t.Run(strings.TrimSuffix(strings.TrimPrefix(path, "testdata/"), ".json"), func(t *testing.T) {
				readFixture(t, path).test(t, check)
			})
		}
	}
}

func (f fixture) test(t *testing.T, check Check) {
	fleet, policy := f.build(t)
	report := alone(check, fleet, policy)
	outcome := report.Checks[0]
	if outcome.Verdict != f.Want.Verdict {
		t.Errorf("verdict %s (%s), want %s", outcome.Verdict, outcome.Reason, f.Want.Verdict)
	}
	if !strings.Contains(outcome.Reason, f.Want.Reason) {
		t.Errorf("reason %q does not contain %q", outcome.Reason, f.Want.Reason)
	}
	if len(report.Findings) != len(f.Want.Findings) {
		t.Fatalf("%d findings, want %d:\n%s", len(report.Findings), len(f.Want.Findings), spelled(report.Findings))
	}
	for i, want := range f.Want.Findings {
		got := report.Findings[i]
		head := wantFinding{Verdict: got.Verdict, Nodes: got.Nodes, Has: want.Has, Lacks: want.Lacks}
		if diff := cmp.Diff(want, head); diff != "" {
			t.Errorf("finding %d (-want +got):\n%s", i, diff)
		}
		text := strings.Join(append([]string{got.Summary, got.Got, got.Want, got.WouldSee}, got.Fix...), "\n")
		for _, piece := range want.Has {
			if !strings.Contains(text, piece) {
				t.Errorf("finding %d does not say %q:\n%s", i, piece, text)
			}
		}
		for _, piece := range want.Lacks {
			if strings.Contains(text, piece) {
				t.Errorf("finding %d says %q:\n%s", i, piece, text)
			}
		}
		wellSpoken(t, got)
	}
}

// wellSpoken holds for every finding of every fixture: it can be acted upon
// and nothing of its templates is left.
func wellSpoken(t *testing.T, f Finding) {
	t.Helper()
	if f.Summary == "" || strings.HasSuffix(f.Summary, ".") {
		t.Errorf("summary %q is empty or ends in a full stop", f.Summary)
	}
	if (f.Verdict == Fail || f.Verdict == Warn) && (len(f.Fix) == 0 || f.WouldSee == "") {
		t.Errorf("%q has no fix or no would_see: %q, %q", f.Summary, f.Fix, f.WouldSee)
	}
	for _, fix := range f.Fix {
		if strings.Contains(fix, unknownDetail) {
			t.Errorf("the fix %q is not one", fix)
		}
	}
	for _, text := range append([]string{f.Summary, f.Got, f.Want, f.WouldSee}, f.Fix...) {
		if left := placeholder.FindString(text); left != "" {
			t.Errorf("%s is left in %q", left, text)
		}
	}
}

// build is the fixture's fleet.
func (f fixture) build(t *testing.T) (launchable, Policy) {
	t.Helper()
	size := f.Size
	if size == 0 {
		size = 4
	}
	fleet, policy := healthyFleet(size), DefaultPolicy()
	names := map[string]bool{"*": true}
	for i := range fleet.Nodes {
		node := &fleet.Nodes[i]
		names[node.Name] = true
		for _, key := range []string{"*", node.Name} {
			if patch, given := f.Nodes[key]; given {
				*node = patched(t, *node, patch)
			}
		}
		if ssh, stopped := f.Stopped[node.Name]; stopped {
			node.Reached, node.Address = false, ""
			node.Facts = facts.Facts{SSH: &ssh}
		}
	}
	for _, name := range append(slices.Collect(maps.Keys(f.Nodes)), slices.Collect(maps.Keys(f.Stopped))...) {
		if !names[name] {
			t.Fatalf("the fleet has no node %s", name)
		}
	}
	if f.NotTried != nil {
		fleet.NotTried = patched(t, fleet.NotTried, f.NotTried)
	}
	if f.Head != nil {
		head := patched(t, *fleet.Head, f.Head)
		fleet.Head = &head
	}
	if f.Launch != nil {
		fleet.Launch = patched[launch.Prediction](t, fleet.Launch, f.Launch)
	}
	if f.Policy != nil {
		policy = patched(t, policy, f.Policy)
	}
	if f.Baseline != nil {
		policy.Baseline = f.baseline(t, size)
	}
	return fleet, policy
}

func (f fixture) baseline(t *testing.T, size int) *Baseline {
	if f.BaselineSize > 0 {
		size = f.BaselineSize
	}
	earlier := &Baseline{File: "golden.json", NotTried: f.BaselineNotTried}
	if f.BaselineHead != nil {
		head := patched(t, *healthyFleet(size).Head, f.BaselineHead)
		earlier.Head = &head
	}
	for _, node := range healthyFleet(size).Nodes {
		patch, given := f.Baseline[node.Name]
		switch {
		case given && patch == nil:
			continue
		case given:
			node = patched(t, node, patch)
		}
		earlier.Nodes = append(earlier.Nodes, node)
	}
	return earlier
}

// patched applies a merge patch to a value by way of its JSON. Keys the value
// does not know are an error: they are spelling mistakes.
func patched[T any](t *testing.T, value T, patch any) T {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	exact := json.NewDecoder(bytes.NewReader(text))
	exact.UseNumber() // sizes beyond 2^53 survive
	if err := exact.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	if text, err = json.Marshal(mergePatch(tree, patch)); err != nil {
		t.Fatal(err)
	}
	var result T
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&result); err != nil {
		t.Fatalf("patch %v: %v", patch, err)
	}
	return result
}

// mergePatch is MergePatch of RFC 7396, section 2, and one thing more: an object
// patches a list by index, so that one of eight GPUs can be told apart.
func mergePatch(target, patch any) any {
	changes, isObject := patch.(map[string]any)
	if !isObject {
		return patch
	}
	if list, isList := target.([]any); isList {
		return patchedList(list, changes)
	}
	object, _ := target.(map[string]any)
	object = maps.Clone(object)
	if object == nil {
		object = map[string]any{}
	}
	for name, change := range changes {
		if change == nil {
			delete(object, name)
			continue
		}
		object[name] = mergePatch(object[name], change)
	}
	return object
}

func fixturesOf(t *testing.T, check string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", check, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func readFixture(t *testing.T, path string) fixture {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var f fixture
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	decoder.UseNumber()
	if err := decoder.Decode(&f); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return f
}

// patchedList patches entries by index, "*" first; null takes one out.
func patchedList(list []any, changes map[string]any) []any {
	var result []any
	for i, entry := range list {
		keep := true
		for _, key := range []string{"*", strconv.Itoa(i)} {
			if change, given := changes[key]; given {
				entry, keep = mergePatch(entry, change), change != nil
			}
		}
		if keep {
			result = append(result, entry)
		}
	}
	return result
}
