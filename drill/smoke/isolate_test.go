// SPDX-License-Identifier: Apache-2.0

package smoke

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"preflight/facts"
)

// faults holds the faults among nodes. A group fails if it contains a fault.
type faults struct {
	bad   []int
	edges [][2]int
	// The faults appear only in groups of at least this many nodes; 0 means in all groups.
	from int
}

func (f faults) fail(group []int) bool {
	if len(group) < f.from {
		return false
	}
	return slices.ContainsFunc(f.bad, func(node int) bool { return slices.Contains(group, node) }) ||
		slices.ContainsFunc(f.edges, func(e [2]int) bool { return slices.Contains(group, e[0]) && slices.Contains(group, e[1]) })
}

// isolate runs Isolate on n nodes for no more than limit rounds. A group fails if fail returns
// true. isolate returns the number of rounds of each stage.
func isolate(t *testing.T, n int, limit int, fail func(group []int) bool) (v Verdict, rounds map[facts.SmokeStage]int) {
	t.Helper()
	var nodes []int
	for i := range n {
		nodes = append(nodes, i)
	}
	rounds = map[facts.SmokeStage]int{}
	made := 0
	v = Isolate(nodes, func(round []Trial) (passed []bool, more bool) {
		if made == limit {
			t.Fatalf("another round after the one that was to be the last")
		}
		made++
		rounds[round[0].Stage]++
		busy := map[int]bool{}
		for _, trial := range round {
			if len(trial.Nodes) < 2 {
				t.Errorf("a trial of %v", trial.Nodes)
			}
			for _, node := range trial.Nodes {
				if busy[node] {
					t.Errorf("node %d is in two trials of one round: %v", node, round)
				}
				busy[node] = true
			}
			passed = append(passed, !fail(trial.Nodes))
		}
		return passed, made < limit
	})
	return v, rounds
}

// some returns k random nodes.
func some(random *rand.Rand, n, k int) []int { return random.Perm(n)[:k] }

// apart returns k edges. They share no node with each other, nor with the nodes in but.
func apart(random *rand.Rand, n, k int, but []int) (edges [][2]int) {
	free := without(random.Perm(n), but)
	for i := range min(k, len(free)/2) {
		edges = append(edges, [2]int{free[2*i], free[2*i+1]})
	}
	return edges
}

func sorted(v Verdict) Verdict {
	slices.Sort(v.Bad)
	v.Edges = slices.Clone(v.Edges)
	for i, e := range v.Edges {
		v.Edges[i] = [2]int{min(e[0], e[1]), max(e[0], e[1])}
	}
	slices.SortFunc(v.Edges, func(a, b [2]int) int { return a[0] - b[0] })
	slices.SortFunc(v.Among, func(a, b []int) int { return slices.Compare(a, b) })
	return v
}

func (f faults) named() Verdict {
	return sorted(Verdict{Bad: slices.Clone(f.bad), Edges: f.edges})
}

func (f faults) String() string {
	return fmt.Sprintf("bad %v, edges %v, from %d", f.bad, f.edges, f.from)
}

// sizes returns all small fleet sizes, and a sample of the larger ones.
func sizes(random *rand.Rand) (all []int) {
	for n := 4; n <= 24; n++ {
		all = append(all, slices.Repeat([]int{n}, 20)...)
	}
	for range 60 {
		all = append(all, 25+random.IntN(488))
	}
	return append(all, 512)
}

func expect(t *testing.T, n int, f faults, got, want Verdict) {
	t.Helper()
	if got, want := fmt.Sprintf("%+v", sorted(got)), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("%d nodes, %v:\n got %s\nwant %s", n, f, got, want)
	}
}

func TestIsolateNodes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, n := range sizes(random) {
		k := 1 + random.IntN(n/4)
		f := faults{bad: some(random, n, k)}
		got, rounds := isolate(t, n, math.MaxInt, f.fail)
		expect(t, n, f, got, f.named())
		stated := 1 + (2*k+n-2*k-1)/(n-2*k)
		if n%2 == 1 || metEachOther(n, f.bad) {
			stated++
		}
		if rounds[facts.SmokePair] > stated || rounds[facts.SmokeHalf] != 1 {
			t.Errorf("%d nodes, %v: %v, where %d of pairs and one of the rest are stated", n, f, rounds, stated)
		}
	}
}

// metEachOther reports whether two bad nodes form a pair in the first round.
func metEachOther(n int, bad []int) bool {
	var all []int
	for i := range n {
		all = append(all, i)
	}
	return slices.ContainsFunc(pairing(all, 0), func(pair []int) bool {
		return slices.Contains(bad, pair[0]) && slices.Contains(bad, pair[1])
	})
}

func TestIsolateEdges(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	for _, n := range sizes(random) {
		f := faults{edges: apart(random, n, 1+random.IntN(3), nil)}
		got, rounds := isolate(t, n, math.MaxInt, f.fail)
		expect(t, n, f, got, f.named())
		// Each edge needs a halving, and after that a trial of the remaining nodes without the
		// edge.
		if halving := len(f.edges) * (1 + 2*int(math.Ceil(math.Log2(float64(n))))); rounds[facts.SmokePair] > 4 || rounds[facts.SmokeHalf] > halving {
			t.Errorf("%d nodes, %v: %v, where 4 of pairs and %d of halves are stated", n, f, rounds, halving)
		}
	}
}

// TestIsolateBoth has a node that meets a bad node first and an edge after that. The node must not
// be blamed for the edge.
func TestIsolateBoth(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	for _, n := range sizes(random) {
		f := faults{bad: some(random, n, 1+random.IntN(n/4))}
		f.edges = apart(random, n, 1+random.IntN((n+7)/8), f.bad)
		got, _ := isolate(t, n, math.MaxInt, f.fail)
		expect(t, n, f, got, f.named())
	}
}

func TestIsolateInLargeCompany(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 4))
	for _, n := range sizes(random) {
		if n < 12 {
			continue
		}
		from := 3 + random.IntN(n/4-2)
		logs := int(math.Ceil(math.Log2(float64(n))))
		node := faults{bad: some(random, n, 1), from: from}
		got, rounds := isolate(t, n, math.MaxInt, node.fail)
		expect(t, n, node, got, node.named())
		if rounds[facts.SmokeHalf] > 2*logs+4 {
			t.Errorf("%d nodes, %v: %v", n, node, rounds)
		}
		edge := faults{edges: apart(random, n, 1, nil), from: from}
		got, rounds = isolate(t, n, math.MaxInt, edge.fail)
		a, b := edge.edges[0][0], edge.edges[0][1]
		expect(t, n, edge, got, Verdict{Among: [][]int{{min(a, b), max(a, b)}}})
		if rounds[facts.SmokeHalf] > 4*logs+4 {
			t.Errorf("%d nodes, %v: %v", n, edge, rounds)
		}
	}
}

// TestIsolateSize checks that no node is blamed if the group is only too large.
func TestIsolateSize(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	for _, n := range sizes(random) {
		from := 3 + random.IntN(n-2)
		got, _ := isolate(t, n, math.MaxInt, func(group []int) bool { return len(group) >= from })
		if len(got.Bad) > 0 || len(got.Edges) > 0 || len(got.Among) != 1 || len(got.Among[0]) < from || len(got.Among[0]) >= 2*from {
			t.Errorf("%d nodes, of which %d are too many: %+v", n, from, got)
		}
	}
}

func TestIsolateFew(t *testing.T) {
	always := func([]int) bool { return true }
	for _, test := range []struct {
		n    int
		fail func([]int) bool
		want Verdict
	}{
		{2, always, Verdict{Among: [][]int{{0, 1}}}},
		{3, always, Verdict{Common: true}},
		{4, always, Verdict{Common: true}},
		{9, always, Verdict{Common: true}},
		{3, faults{bad: []int{0}}.fail, Verdict{Bad: []int{0}}},
		{3, faults{bad: []int{1}}.fail, Verdict{Bad: []int{1}}},
		{3, faults{bad: []int{2}}.fail, Verdict{Bad: []int{2}}},
		{3, faults{edges: [][2]int{{0, 1}}}.fail, Verdict{Edges: [][2]int{{0, 1}}}},
		{3, faults{edges: [][2]int{{0, 2}}}.fail, Verdict{Edges: [][2]int{{0, 2}}}},
		{3, faults{edges: [][2]int{{1, 2}}}.fail, Verdict{Edges: [][2]int{{1, 2}}}},
		{3, faults{bad: []int{0}, from: 3}.fail, Verdict{Among: [][]int{{0, 1, 2}}}},
		{4, faults{bad: []int{0, 2}}.fail, Verdict{Bad: []int{0, 2}}},
		{8, faults{bad: []int{6, 1}}.fail, Verdict{Bad: []int{1, 6}}},
	} {
		got, _ := isolate(t, test.n, math.MaxInt, test.fail)
		if got, want := fmt.Sprintf("%+v", sorted(got)), fmt.Sprintf("%+v", sorted(test.want)); got != want {
			t.Errorf("%d nodes:\n got %s\nwant %s", test.n, got, want)
		}
	}
}

// TestIsolateTimeOver checks every time limit. No well node may be blamed. Unclear nodes must be
// reported as unclear, and stages that were not tried must be reported.
func TestIsolateTimeOver(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 6))
	for range 200 {
		n := 4 + random.IntN(60)
		f := faults{bad: some(random, n, 1+random.IntN(n/4))}
		f.edges = apart(random, n, 1, f.bad)
		whole, rounds := isolate(t, n, math.MaxInt, f.fail)
		needed := rounds[facts.SmokePair] + rounds[facts.SmokeHalf]
		for limit := 1; limit <= needed; limit++ {
			got, _ := isolate(t, n, limit, f.fail)
			got = sorted(got)
			if limit == needed {
				expect(t, n, f, got, sorted(whole))
				continue
			}
			if len(without(got.Bad, f.bad)) > 0 || slices.ContainsFunc(got.Edges, func(e [2]int) bool { return !f.fail(e[:]) || f.fail(e[:1]) || f.fail(e[1:]) }) {
				t.Errorf("%d nodes, %v, %d rounds: blames %+v", n, f, limit, got)
			}
			if len(got.Untried) == 0 {
				t.Errorf("%d nodes, %v, %d rounds of %d: nothing is untried in %+v", n, f, limit, needed, got)
			}
			if len(got.Bad)+len(got.Edges)+len(got.Among) == 0 && !got.Common {
				t.Errorf("%d nodes, %v, %d rounds: nothing is said", n, f, limit)
			}
		}
	}
}

// TestIsolateCutRound checks that Isolate concludes nothing from a trial that was not run.
func TestIsolateCutRound(t *testing.T) {
	got := Isolate([]int{10, 11, 12, 13, 14, 15}, func(round []Trial) ([]bool, bool) { return []bool{false}, false })
	if want := (Verdict{Among: [][]int{{10, 15}}, Untried: []facts.SmokeStage{facts.SmokePair}}); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
