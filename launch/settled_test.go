package launch

import (
	"testing"

	"preflight/facts"
)

func TestSettled(t *testing.T) {
	node := func(gpus int) facts.Node {
		return facts.Node{Reached: true, Facts: facts.Facts{GPU: &facts.GPU{Devices: make([]string, gpus)}}}
	}
	open := Prediction{Accelerator: "cuda", AcceleratorOpen: true}
	for _, c := range []struct {
		name  string
		p     Prediction
		nodes []facts.Node
		want  string
	}{
		{"nobody has one", open, []facts.Node{node(0), node(0)}, "cpu"},
		{"one has", open, []facts.Node{node(0), node(8)}, "cuda"},
		{"one was not looked at", open, []facts.Node{node(0), {Reached: true}}, "cuda"},
		{"one was not reached", open, []facts.Node{node(0), {}}, "cpu"},
		{"nobody was reached", open, []facts.Node{{}}, "cuda"},
		{"it was said", Prediction{Accelerator: "cuda"}, []facts.Node{node(0)}, "cuda"},
		{"before there was a fallback", Prediction{Accelerator: "cuda", AcceleratorOpen: true, DeepSpeed: "0.14.0"}, []facts.Node{node(0)}, "cuda"},
	} {
		if got := c.p.Settled(c.nodes).Accelerator; got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
