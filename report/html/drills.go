// SPDX-License-Identifier: Apache-2.0

package html

import (
	"cmp"
	"slices"

	"github.com/dustin/go-humanize"

	"preflight/facts"
	"preflight/internal/text"
	"preflight/report"
)

const mostCalls = 40

// mesh is a mesh drill on the page. The script draws the heat map from the facts.
type mesh struct {
	Section string // mesh or peer_mesh: the section that the script reads
	Title   string
	Words   string
	Failed  []failedCalls
	More    int
}

// failedCalls holds connections to one node that failed in the same way.
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
		part    func(*facts.Node) *facts.Mesh
	}{
		{facts.SectionMesh, "Calls between nodes on the addresses that the ranks will use", func(n *facts.Node) *facts.Mesh { return n.Mesh }},
		{facts.SectionPeerMesh, "Calls between nodes on the addresses with a route to the peers", func(n *facts.Node) *facts.Mesh { return n.PeerMesh }},
	} {
		if line := report.MeshWords(nodes, drill.part); line != "" {
			failed := callsThatFailed(w, nodes, drill.part)
			shown := min(len(failed), mostCalls)
			all = append(all, mesh{string(drill.section), drill.title, text.Escape(line), failed[:shown], len(failed) - shown})
		}
	}
	return all
}

// callsThatFailed groups the failed connections by target node and outcome. Groups with the most
// source nodes come first.
func callsThatFailed(w report.Words, nodes []facts.Node, part func(*facts.Node) *facts.Mesh) (all []failedCalls) {
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
	for _, alike := range text.GroupBy(calls, func(c call) ending { return c.ending }) {
		callers := text.Map(alike.All, func(c call) string { return c.from })
		end := alike.Key
		all = append(all, failedCalls{setOf(w, callers), text.Escape(end.to), text.Escape(end.outcome), text.Escape(end.err), len(callers)})
	}
	slices.SortStableFunc(all, func(a, b failedCalls) int { return cmp.Compare(b.count, a.count) })
	return all
}

type meeting struct {
	Title    string
	Endpoint string
	Words    string // "6 of 8 nodes joined, complete after 4 ms"
	Longest  string // the time at the right end of the time line
	Joined   []joinedNodes
	Failed   []turnedAway
	More     int // number of entries left out of Failed
}

// joinedNodes holds nodes on the time line. JoinedX and WholeX are thousandths of the longest time.
type joinedNodes struct {
	Nodes           set
	JoinedX, WholeX int // WholeX is 0 if the rendezvous was never complete
	Joined, Whole   string
}

// turnedAway holds the nodes that failed at the same hop in the same way.
type turnedAway struct {
	Nodes set
	Hops  []hop
	How   string
}

// hop is a step of joining: passed, failed or never tried.
type hop struct{ Name, State string }

// mostJoined is how many nodes a time line shows separately. These are the first nodes and the last
// nodes.
const mostJoined = 16

// mostTurnedAway is the maximum number of kinds of failure shown for one rendezvous.
const mostTurnedAway = 20

func meetings(w report.Words, nodes []facts.Node) (all []meeting) {
	for _, drill := range []struct {
		title string
		part  func(*facts.Node) *facts.Rendezvous
	}{
		{"At the endpoint that the ranks get", func(n *facts.Node) *facts.Rendezvous { return n.Rendezvous }},
		{"Then at the endpoint that group rank 0 publishes", func(n *facts.Node) *facts.Rendezvous { return next(n.Rendezvous) }},
		{"On the addresses with a route to the peers", func(n *facts.Node) *facts.Rendezvous { return n.PeerRendezvous }},
		{"Then there", func(n *facts.Node) *facts.Rendezvous { return next(n.PeerRendezvous) }},
	} {
		if m, held := newMeeting(w, nodes, drill.part); held {
			m.Title = drill.title
			all = append(all, m)
		}
	}
	return all
}

func next(r *facts.Rendezvous) *facts.Rendezvous {
	if r == nil {
		return nil
	}
	return r.Next
}

func newMeeting(w report.Words, nodes []facts.Node, part func(*facts.Node) *facts.Rendezvous) (m meeting, held bool) {
	of := report.MeetingOf(nodes, part)
	longest := 0.0
	for _, a := range slices.Concat(of.Joined, of.Failed) {
		longest = max(longest, a.Joined, a.Complete)
	}
	m = meeting{
		Endpoint: text.Escape(of.Endpoint), Words: of.Words, Longest: text.Duration(longest),
		Joined: timeline(w, of.Joined, longest), Failed: turnedAwayAt(w, of.Failed),
	}
	if len(m.Failed) > mostTurnedAway {
		m.More = len(m.Failed) - mostTurnedAway
		m.Failed = m.Failed[:mostTurnedAway]
	}
	return m, of.Held
}

// timeline returns the nodes that joined, in the order in which they joined. If there are many
// nodes, those in the middle share one row.
func timeline(w report.Words, joined []report.Attendance, longest float64) (rows []joinedNodes) {
	slices.SortStableFunc(joined, func(a, b report.Attendance) int { return cmp.Compare(a.Joined, b.Joined) })
	const firstShown, lastShown = 3, mostJoined - 4
	for i := 0; i < len(joined); {
		end := i + 1
		if i == firstShown && len(joined) > mostJoined {
			end = len(joined) - lastShown
		}
		rows = append(rows, joinedRow(w, joined[i:end], longest))
		i = end
	}
	return rows
}

// joinedRow returns the row of nodes that joined one after the other.
func joinedRow(w report.Words, some []report.Attendance, longest float64) joinedNodes {
	whole := 0.0
	for _, a := range some {
		whole = max(whole, a.Complete)
	}
	first, last := some[0].Joined, some[len(some)-1].Joined
	row := joinedNodes{Nodes: setOf(w, namesOf(some)), JoinedX: thousandths(last, longest), WholeX: thousandths(whole, longest), Joined: text.Duration(last)}
	if len(some) > 1 {
		row.Joined = text.Duration(first) + " to " + text.Duration(last)
	}
	if whole > 0 {
		row.Whole = text.Duration(whole)
	}
	return row
}

func thousandths(part, whole float64) int {
	if whole <= 0 {
		return 0
	}
	return int(1000 * part / whole)
}

// turnedAwayAt groups the nodes that failed by hop and error.
func turnedAwayAt(w report.Words, failed []report.Attendance) (all []turnedAway) {
	type how struct {
		hop    facts.Hop
		text   string
		serves bool
	}
	for _, alike := range text.GroupBy(failed, func(a report.Attendance) how { return how{a.Failed, howItFailed(a.Rendezvous), a.Serves} }) {
		all = append(all, turnedAway{setOf(w, namesOf(alike.All)), hopsTo(alike.Key.hop, alike.Key.serves), alike.Key.text})
	}
	return all
}

func namesOf(some []report.Attendance) []string {
	return text.Map(some, func(a report.Attendance) string { return a.Node })
}

func howItFailed(r *facts.Rendezvous) string {
	how := text.Escape(cmp.Or(r.Error, string(r.Outcome)))
	if r.Address != "" {
		how = text.Escape(r.Address) + ": " + how
	}
	return how
}

// hopsTo returns the steps of joining up to the one that failed. Only the node that serves the
// store has to bind its port.
func hopsTo(failed facts.Hop, serves bool) (hops []hop) {
	way := []facts.Hop{facts.HopServe, facts.HopResolve, facts.HopConnect, facts.HopValidate, facts.HopJoin, facts.HopWait}
	if !slices.Contains(way, failed) {
		return []hop{{string(failed), "failed"}} // a hop that only another version knows
	}
	state := "passed"
	for _, name := range way {
		if name == facts.HopServe && !serves {
			continue
		}
		if name == failed {
			hops = append(hops, hop{string(name), "failed"})
			state = "untried"
			continue
		}
		hops = append(hops, hop{string(name), state})
	}
	return hops
}

// smoke is the smoke test on the page: the rates of computing, and the pairs of nodes.
type smoke struct {
	Words string
	Bars  []smokeBar // the slowest first
	More  int        // number of nodes left out
	Pairs *pairMatrix
}

// smokeBar holds the rates of a node's slowest rank.
type smokeBar struct {
	Node, Rate     string
	X              int // length of the bar, in thousandths of the fastest rank's rate
	In, Out, Local string
}

// pairMatrix has a row and a column for each node that was tried in a pair.
type pairMatrix struct {
	Columns []string
	Rows    []pairRow
}

type pairRow struct {
	Node  string
	Cells []pairCell
}

// pairCell is one pair: passed, failed or never tried, with its rate.
type pairCell struct{ Class, Text string }

// mostBars and mostPaired are the maximum numbers of nodes that a page shows separately.
const (
	mostBars   = 24
	mostPaired = 24
)

func newSmoke(nodes []facts.Node) *smoke {
	took := report.Smoked(nodes)
	if len(took) == 0 {
		return nil
	}
	s := &smoke{Words: text.Escape(report.SmokeWords(nodes))}
	fastest, slowest := 0.0, map[string]facts.SmokeRank{}
	for _, node := range took {
		for i, rank := range node.Smoke.Ranks {
			fastest = max(fastest, rank.Rate)
			if i == 0 || rank.Rate < slowest[node.Name].Rate {
				slowest[node.Name] = rank
			}
		}
	}
	byRate := slices.Clone(took)
	slices.SortStableFunc(byRate, func(a, b facts.Node) int { return cmp.Compare(slowest[a.Name].Rate, slowest[b.Name].Rate) })
	s.More = max(0, len(byRate)-mostBars)
	for _, node := range byRate[:len(byRate)-s.More] {
		rank := slowest[node.Name]
		bar := smokeBar{Node: node.Name, In: copied(rank.HostToDevice), Out: copied(rank.DeviceToHost), Local: copied(rank.DeviceToDevice)}
		if rank.Rate > 0 {
			bar.Rate, bar.X = humanize.SIWithDigits(rank.Rate, 1, "op/s"), int(1000*rank.Rate/fastest)
		}
		s.Bars = append(s.Bars, bar)
	}
	s.Pairs = newPairMatrix(took)
	return s
}

func copied(rate float64) string {
	if rate == 0 {
		return ""
	}
	return text.BitRate(rate)
}

// newPairMatrix returns nil if no pair was tried. If there are many nodes, the nodes with a failed
// pair come first.
func newPairMatrix(took []facts.Node) *pairMatrix {
	type pair struct{ a, b string }
	tried, failed := map[pair]pairCell{}, map[string]bool{}
	for _, node := range took {
		for _, trial := range node.Smoke.Trials {
			if trial.Stage != facts.SmokePair || len(trial.With) != 1 {
				continue
			}
			cell := pairCell{"p", text.BitRate(trial.Rate)}
			if !trial.Passed {
				cell = pairCell{"f", "failed"}
				failed[node.Name] = true
			}
			tried[pair{node.Name, trial.With[0]}] = cell
			tried[pair{trial.With[0], node.Name}] = cell
		}
	}
	if len(tried) == 0 {
		return nil
	}
	shown := text.Map(took, func(node facts.Node) string { return node.Name })
	if len(shown) > mostPaired {
		whole := slices.DeleteFunc(slices.Clone(shown), func(name string) bool { return failed[name] })
		shown = slices.DeleteFunc(shown, func(name string) bool { return !failed[name] })
		shown = append(shown, whole...)[:mostPaired]
	}
	m := &pairMatrix{Columns: shown}
	for _, a := range shown {
		row := pairRow{Node: a}
		for _, b := range shown {
			cell, met := tried[pair{a, b}]
			if !met {
				cell = pairCell{"s", ""}
			}
			row.Cells = append(row.Cells, cell)
		}
		m.Rows = append(m.Rows, row)
	}
	return m
}
