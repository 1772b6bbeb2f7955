package main

import (
	"testing"

	"preflight/checks"
	"preflight/facts"
)

func TestLacking(t *testing.T) {
	node := func(reached bool, cause string) facts.Node {
		return facts.Node{Reached: reached, Facts: facts.Facts{SSH: &facts.SSH{Cause: cause}}}
	}
	for name, c := range map[string]struct {
		nodes       []facts.Node
		interrupted bool
		want        string
	}{
		"whole":       {[]facts.Node{node(true, ""), {Reached: true}}, false, ""},
		"not reached": {[]facts.Node{node(true, ""), node(false, "timed-out")}, false, "the snapshot lacks 1 of 2 nodes that were not reached, or lost midway"},
		"lost midway": {[]facts.Node{node(true, "killed")}, false, "the snapshot lacks 1 of 1 nodes that were not reached, or lost midway"},
		"interrupted": {[]facts.Node{node(true, "")}, true, "the snapshot was interrupted"},
		"both": {[]facts.Node{node(false, "interrupted")}, true,
			"the snapshot was interrupted and lacks 1 of 1 nodes that were not reached, or lost midway"},
	} {
		if got := lacking(checks.Report{Interrupted: c.interrupted, Fleet: facts.Fleet{Nodes: c.nodes}}); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
