package catalogue

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
)

// TestOfMachineLeavesTheTemplates: findings share the list of a check's fixes, and what
// is written for the launching machine must not be there for the next.
func TestOfMachineLeavesTheTemplates(t *testing.T) {
	head := &facts.Node{Name: "launching machine"}
	shared := []fix.Command{fix.On("lspci")}
	before := shared[0]
	ranks.OfMachine(checks.View{Head: head}, head, checks.Finding{Remedy: shared})
	if diff := cmp.Diff(before, shared[0], cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
		t.Errorf("the shared list changed (-want +got):\n%s", diff)
	}
}
