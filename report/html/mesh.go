package html

import (
	"cmp"
	"slices"

	"preflight/facts"
	"preflight/report"
)

// mostCalls is how many rows of failed calls are told.
const mostCalls = 40

// mesh is a mesh drill on the page. Its heat map is drawn from the facts.
type mesh struct {
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

func meshes(w report.Words, nodes []facts.Node) (all []mesh) {
	for _, drill := range []struct {
		section facts.Section
		title   string
		part    report.MeshPart
	}{
		{facts.SectionMesh, "Who reaches whom, on the addresses the ranks will use", report.RanksMesh},
		{facts.SectionPeerMesh, "The same on the addresses that lead to the peers", report.PeersMesh},
	} {
		if text := report.MeshWords(nodes, drill.part); text != "" {
			failed := callsThatFailed(w, nodes, drill.part)
			shown := min(len(failed), mostCalls)
			all = append(all, mesh{string(drill.section), drill.title, report.Escape(text), failed[:shown], len(failed) - shown})
		}
	}
	return all
}

// callsThatFailed are the failed calls by callee and outcome, those of most
// callers first.
func callsThatFailed(w report.Words, nodes []facts.Node, part report.MeshPart) (all []failedCalls) {
	type ending struct{ to, outcome, err string }
	type call struct {
		from string
		ending
	}
	var calls []call
	for i := range nodes {
		mesh := part(&nodes[i])
		if mesh == nil {
			continue
		}
		for _, path := range mesh.Failed {
			calls = append(calls, call{nodes[i].Name, ending{path.Peer, string(path.Outcome), path.Error}})
		}
	}
	for _, alike := range report.GroupBy(calls, func(c call) ending { return c.ending }) {
		var callers []string
		for _, c := range alike.All {
			callers = append(callers, c.from)
		}
		end := alike.Key
		all = append(all, failedCalls{setOf(w, callers), report.Escape(end.to), report.Escape(end.outcome), report.Escape(end.err), len(callers)})
	}
	slices.SortStableFunc(all, func(a, b failedCalls) int { return cmp.Compare(b.count, a.count) })
	return all
}
