package checks

import (
	"slices"

	"preflight/facts"
)

// rankNodes are the machines that ranks will run on, as far as a check may look
// at them: where DeepSpeed starts the only host's ranks on the launching machine,
// it is that one.
func rankNodes(view View) []*facts.Node {
	if view.Launch.Local && view.Head != nil {
		return []*facts.Node{view.Head}
	}
	return view.Nodes
}

// ofMachine has the fixes of a finding run where they are typed, if it is one of
// the launching machine.
func ofMachine(view View, machine *facts.Node, f Finding) Finding {
	if machine != view.Head {
		return f
	}
	f.Remedy = slices.Clone(f.Remedy) // findings share the lists of their checks
	for i, command := range f.Remedy {
		f.Remedy[i] = command.Locally()
	}
	return f
}
