package checks

import (
	"testing"

	"preflight/facts"
)

// TestOfMachineLeavesTheTemplates: findings share the list of a check's fixes, and what
// is written for the launching machine must not be there for the next.
func TestOfMachineLeavesTheTemplates(t *testing.T) {
	head := &facts.Node{Name: "launching machine"}
	shared := []string{"{ssh} lspci"}
	f := ofMachine(View{Head: head}, head, Finding{Fix: shared})
	if f.Fix[0] != "lspci" || shared[0] != "{ssh} lspci" {
		t.Errorf("%q of %q", f.Fix, shared)
	}
}
