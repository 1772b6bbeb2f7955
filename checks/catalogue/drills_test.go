// SPDX-License-Identifier: Apache-2.0

package catalogue_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"preflight/checks"
	"preflight/checks/catalogue"
	"preflight/checks/engine"
	"preflight/facts"
	"preflight/fleet"
	"preflight/launch"
	"preflight/remote"
)

// TestDrillsNameTheirChecks compares the table of drills with the catalogue. Both must list the
// same checks that need a drill's facts.
func TestDrillsNameTheirChecks(t *testing.T) {
	for _, drill := range fleet.Drills {
		for _, id := range drill.Checks {
			if !slices.ContainsFunc(catalogue.Catalogue, func(check checks.Check) bool { return check.ID == id }) {
				t.Errorf("%s is for the check %s, which is not in the catalogue", drill.Section, id)
			}
		}
		for _, check := range catalogue.Catalogue {
			if slices.Contains(check.Needs, drill.Section) && !slices.Contains(drill.Checks, check.ID) {
				t.Errorf("%s needs %s, whose drill does not name it", check.ID, drill.Section)
			}
		}
	}
}

// TestEveryCauseHasACure requires a finding for every cause of package remote. It reads the causes
// from the source of that package, so that no new cause can be forgotten.
func TestEveryCauseHasACure(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../remote/error.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	told := func(cause string) string { // the finding for a node that was not reached because of this cause
		seen := facts.Fleet{Nodes: []facts.Node{{Name: "w1", Facts: facts.Facts{SSH: &facts.SSH{Cause: cause}}}}}
		findings := engine.Evaluate(catalogue.Catalogue, seen, launch.Prediction{}, checks.DefaultPolicy()).Findings
		if len(findings) == 0 {
			t.Fatalf("nothing is said of %s", cause)
		}
		return findings[0].Summary
	}
	unexpected, causes := told("lightning"), 0
	ast.Inspect(file, func(node ast.Node) bool {
		spec, isValue := node.(*ast.ValueSpec)
		if !isValue {
			return true
		}
		if kind, typed := spec.Type.(*ast.Ident); !typed || kind.Name != "Cause" {
			return true
		}
		for _, value := range spec.Values {
			cause, err := strconv.Unquote(value.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			causes++
			if told(cause) == unexpected && cause != string(remote.Unexpected) {
				t.Errorf("remote tells %q apart, but no check has a cure for it", cause)
			}
		}
		return true
	})
	if causes < 40 {
		t.Errorf("only %d causes were found in remote/error.go", causes)
	}
}
