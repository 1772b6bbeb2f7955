// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/checks/engine"
	"preflight/checks/software"
	"preflight/facts"
	"preflight/testhosts/fleettest"
)

// converted holds the nodes of a healthy fleet that lastingOf has converted. A fixture changes only
// few of the nodes, so most of the others have the same facts. Nothing may change these facts.
var converted = sync.OnceValue(func() (all []struct{ whole, lasting facts.Facts }) {
	for _, node := range fleettest.Healthy(4).Nodes {
		lasting, err := throughJSON(node.Lasting())
		if err != nil {
			panic(err)
		}
		all = append(all, struct{ whole, lasting facts.Facts }{node.Facts, lasting})
	}
	return all
})

// lastingOf returns a fleet in the form in which it is read from a normalized snapshot.
func lastingOf(t *testing.T, fleet fleettest.Fleet) fleettest.Fleet {
	t.Helper()
	through := func(node facts.Node, tree map[string]any) facts.Node {
		var err error
		if node.Facts, err = throughJSON(tree); err != nil {
			t.Fatal(err)
		}
		return node
	}
	fleet.Nodes = slices.Clone(fleet.Nodes)
	for i, node := range fleet.Nodes {
		if done := converted(); i < len(done) && reflect.DeepEqual(node.Facts, done[i].whole) {
			fleet.Nodes[i].Facts = done[i].lasting
			continue
		}
		fleet.Nodes[i] = through(node, node.Lasting())
	}
	if fleet.Head != nil {
		head := through(*fleet.Head, fleet.Head.LastingOfHead())
		fleet.Head = &head
	}
	fleet.Launch = agreement.LastingLaunch(fleet.Launch)
	fleet.Fleet = agreement.LastingFleet(fleet.Fleet, fleet.Launch)
	return fleet
}

// throughJSON returns facts after a round trip through JSON. tree may hold all facts, or only those
// that last.
func throughJSON(tree any) (read facts.Facts, err error) {
	text, err := json.Marshal(tree)
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	return read, err
}

// TestLastingJudgesAlike evaluates every fixture and its normalized snapshot. A check must return
// the same result for both, or say that it cannot examine the snapshot. It must never pass a fact
// that it has not seen. A check that finds the cause may be missing in the snapshot.
func TestLastingJudgesAlike(t *testing.T) {
	ofFixtures(t, func(t *testing.T, check checks.Check, c fixture) {
		fleet, policy := c.build(t)
		whole := alone(check, fleet, policy)
		left := lastingOf(t, fleet)
		part := aloneAmong(agreement.Lasting(Catalogue), agreement.Lasting([]checks.Check{check})[0], left, policy)
		a, b := whole.Checks[0], part.Checks[0]
		if strings.Contains(b.Reason, agreement.LeftOut) || check.Volatile && b.Verdict == checks.Unknown {
			return
		}
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("%s: whole and normalized (-whole +normalized):\n%s", c.name, diff)
		} else if diff := cmp.Diff(whole.Findings, part.Findings, cmpopts.IgnoreFields(checks.Finding{}, "SharesCause")); diff != "" {
			t.Errorf("%s: whole and normalized (-whole +normalized):\n%s", c.name, diff)
		}
	})
}

// TestLastingHealthy expects no findings, and unknowns for the facts that the snapshot leaves out.
// No snapshot proves that a fleet is ready for a launch.
func TestLastingHealthy(t *testing.T) {
	fleet := lastingOf(t, fleettest.Healthy(4))
	report := engine.Evaluate(agreement.Lasting(Catalogue), fleet.Fleet, fleet.Launch, checks.DefaultPolicy())
	if diff := cmp.Diff([]checks.Finding{}, report.Findings); diff != "" || report.Verdict != checks.Unknown || report.ExitCode != 2 {
		t.Errorf("%s, exit code %d (-want +got):\n%s", report.Verdict, report.ExitCode, diff)
	}
	for i, outcome := range report.Checks {
		momentary := slices.ContainsFunc(Catalogue[i].Needs, func(s facts.Section) bool { return slices.Contains(facts.Momentary, s) })
		here := Catalogue[i].OnHead && slices.ContainsFunc(Catalogue[i].Needs, func(s facts.Section) bool { return s != facts.SectionLauncher })
		leftOut := outcome.Verdict == checks.Unknown && outcome.Reason == agreement.LeftOut
		if leftOut != (momentary || here || Catalogue[i].Volatile) {
			t.Errorf("%s: %s (%s)", outcome.Check, outcome.Verdict, outcome.Reason)
		}
	}
	policy := checks.DefaultPolicy()
	policy.Only = []string{software.TorchSame.ID}
	report = engine.Evaluate(agreement.Lasting(Catalogue), fleet.Fleet, fleet.Launch, policy)
	if report.Verdict != checks.Pass || report.ExitCode != 0 {
		t.Errorf("only %s: %s, exit code %d", software.TorchSame.ID, report.Verdict, report.ExitCode)
	}
}

// TestVolatileIsDeclared changes every fact that a normalized snapshot leaves out. A check whose
// result changes must be declared Volatile. Otherwise it would treat zeros as facts.
func TestVolatileIsDeclared(t *testing.T) {
	ofFixtures(t, func(t *testing.T, check checks.Check, c fixture) {
		if check.Volatile || slices.ContainsFunc(check.Needs, func(s facts.Section) bool { return slices.Contains(facts.Momentary, s) }) {
			return
		}
		fleet, policy := c.build(t)
		want := alone(check, fleet, policy)
		shaken := fleet.Fleet
		shaken.Nodes = nil
		for i, node := range fleet.Nodes {
			number := []int64{1, 1 << 50}[i%2]
			lasts := node.Lasting()
			read, err := throughJSON(node.Facts)
			if err != nil {
				t.Fatal(err)
			}
			node.Facts = read
			disturb(reflect.ValueOf(&node.Facts), lasts, number)
			shaken.Nodes = append(shaken.Nodes, node)
		}
		got := alone(check, fleettest.Fleet{Fleet: shaken, Launch: fleet.Launch}, policy)
		if diff := cmp.Diff(want.Findings, got.Findings); diff != "" || want.Checks[0] != got.Checks[0] {
			t.Errorf("%s with other volatile facts: %v, not %v (-want +got):\n%s", c.name, got.Checks[0], want.Checks[0], diff)
		}
	})
}

// disturb changes the facts of v that are not in tree. tree holds the facts that last.
func disturb(v reflect.Value, tree any, number int64) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			disturb(v.Elem(), tree, number)
		}
	case reflect.Slice:
		list, _ := tree.([]any)
		for i := range min(v.Len(), len(list)) {
			disturb(v.Index(i), list[i], number)
		}
	case reflect.Struct:
		fields, _ := tree.(map[string]any)
		for i := range v.NumField() {
			field := v.Type().Field(i)
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			below, lasts := fields[name]
			switch {
			case options == "omitempty" && v.Field(i).IsZero(): // the fact is omitted because it is empty
			case field.Anonymous && name == "":
				disturb(v.Field(i), tree, number)
			case lasts:
				disturb(v.Field(i), below, number)
			case !slices.Contains(facts.Momentary, facts.Section(name)):
				shake(v.Field(i), number)
			}
		}
	}
}

// shake changes a value. Absent values stay absent.
func shake(v reflect.Value, number int64) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			shake(v.Elem(), number)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			shake(v.Field(i), number)
		}
	case reflect.Slice:
		for i := range v.Len() {
			shake(v.Index(i), number)
		}
	case reflect.Int, reflect.Int64:
		v.SetInt(number)
	case reflect.Uint64, reflect.Uint32:
		v.SetUint(uint64(number) & math.MaxUint32)
	case reflect.Float64:
		v.SetFloat(float64(number))
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString("shaken")
	}
}
