package checks

import "slices"

// concerned is the nodes of which a check finds one of these verdicts, for
// checks that it explains. None where the check is switched off, for then nobody
// says it.
func concerned(view View, check Check, verdicts ...Verdict) map[string]bool {
	nodes := map[string]bool{}
	if view.Policy.SwitchesOff(check.ID) {
		return nodes
	}
	view.Nodes = nil
	for i := range view.All {
		if missing(check, &view.All[i]) == "" {
			view.Nodes = append(view.Nodes, &view.All[i])
		}
	}
	if len(view.Nodes) == 0 {
		return nodes
	}
	for _, f := range check.Run(view) {
		complete(&f, check)
		if !slices.Contains(verdicts, f.Verdict) {
			continue
		}
		for _, node := range f.Nodes {
			nodes[node] = true
		}
	}
	return nodes
}

// failing is the nodes that a check fails.
func failing(view View, check Check) map[string]bool { return concerned(view, check, Fail) }
