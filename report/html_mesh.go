package report

import (
	"cmp"
	"slices"

	"preflight/facts"
)

// mostCalls is how many rows of failed calls are told.
const mostCalls = 40

// toldMesh is a mesh drill on the page. Its heat map is drawn from the facts.
type toldMesh struct {
	Section string // mesh or peer_mesh: where the script finds it
	Title   string
	Words   string
	Failed  []failedCalls
	More    int
}

// failedCalls is calls to one node that ended alike.
type failedCalls struct {
	From    set
	To      string
	Outcome string
	Error   string
	count   int
}

func toldMeshes(p *page, nodes []facts.Node) (all []toldMesh) {
	for _, mesh := range []struct {
		section facts.Section
		title   string
		part    meshPart
	}{
		{facts.SectionMesh, "Who reaches whom, on the addresses the ranks will use", ranksMesh},
		{facts.SectionPeerMesh, "The same on the addresses that lead to the peers", peersMesh},
	} {
		if text := meshInWords(nodes, mesh.part); text != "" {
			failed := callsThatFailed(p, nodes, mesh.part)
			shown := min(len(failed), mostCalls)
			all = append(all, toldMesh{string(mesh.section), mesh.title, Escape(text), failed[:shown], len(failed) - shown})
		}
	}
	return all
}

// callsThatFailed are the failed calls by callee and outcome, those of most
// callers first.
func callsThatFailed(p *page, nodes []facts.Node, part meshPart) (all []failedCalls) {
	type key struct{ to, outcome, err string }
	callers := map[key][]string{}
	var order []key
	for i := range nodes {
		mesh := part(&nodes[i])
		if mesh == nil {
			continue
		}
		for _, path := range mesh.Failed {
			k := key{path.Peer, string(path.Outcome), path.Error}
			if callers[k] == nil {
				order = append(order, k)
			}
			callers[k] = append(callers[k], nodes[i].Name)
		}
	}
	for _, k := range order {
		all = append(all, failedCalls{p.set(callers[k]), Escape(k.to), Escape(k.outcome), Escape(k.err), len(callers[k])})
	}
	slices.SortStableFunc(all, func(a, b failedCalls) int { return cmp.Compare(b.count, a.count) })
	return all
}
