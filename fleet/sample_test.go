// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks/proof"
	"preflight/facts"
)

// TestSampleIsEven checks that all nodes make and receive the same number of calls, and that no
// pair calls twice in either direction. In each cycle, every part of a fleet must call the rest of
// the fleet, and the rest must call that part.
func TestSampleIsEven(t *testing.T) {
	for _, n := range []int{facts.FullMesh + 1, 200, 1000, 10000} {
		for seed := range uint64(5) {
			callees := sample(n, seed)
			calledBy := make([]int, n)
			beside := map[[2]int]bool{}
			for i, called := range callees {
				if len(called) != 1+facts.SampledPeers || called[0] != i || called[1] != (i+1)%n {
					t.Fatalf("of %d: node %d calls %v, want itself, the next and %d more", n, i, called, facts.SampledPeers-1)
				}
				for _, j := range called[1:] {
					calledBy[j]++
					pair := [2]int{min(i, j), max(i, j)}
					if i == j || beside[pair] {
						t.Fatalf("of %d: %d and %d are beside each other twice", n, i, j)
					}
					beside[pair] = true
				}
			}
			if slices.Min(calledBy) != facts.SampledPeers || slices.Max(calledBy) != facts.SampledPeers {
				t.Errorf("of %d: nodes are called by %d to %d others, want %d", n, slices.Min(calledBy), slices.Max(calledBy), facts.SampledPeers)
			}
			random := rand.New(rand.NewPCG(seed, 1))
			for _, size := range []int{1, 2, 8, n / 4, n / 2} {
				cut := map[int]bool{}
				for _, node := range random.Perm(n)[:size] {
					cut[node] = true
				}
				if in, out := calls(callees, cut, false), calls(callees, cut, true); in < facts.SampledPeers || out < facts.SampledPeers {
					t.Errorf("of %d: %d nodes are called by the rest %d times and call it %d times, want %d", n, size, in, out, facts.SampledPeers)
				}
			}
		}
	}
	if diff := cmp.Diff(sample(300, 7), sample(300, 7)); diff != "" {
		t.Errorf("one seed, two samples: %s", diff)
	}
	if cmp.Equal(sample(300, 7), sample(300, 8)) {
		t.Error("two seeds, one sample")
	}
}

// TestLookups checks that every node looks up the same number of names, including its own name.
// Every name must be looked up by the same number of nodes.
func TestLookups(t *testing.T) {
	for _, n := range []int{1, 2, facts.FullMesh, facts.FullMesh + 1, 1000, 10000} {
		by := make([]int, n)
		for i := range n {
			places := lookups(n, i, facts.SampledNames)
			if !slices.Contains(places, i) || !slices.Contains(places, 0) || !slices.Contains(places, (i+1)%n) || !slices.IsSorted(places) {
				t.Fatalf("of %d: node %d looks up %v", n, i, places)
			}
			if most := min(n, max(facts.FullMesh, facts.SampledNames+3)); n <= facts.FullMesh && len(places) != n || len(places) > most {
				t.Errorf("of %d: node %d looks up %d names", n, i, len(places))
			}
			for _, at := range places {
				by[at]++
			}
		}
		if least := slices.Min(by); least < min(n, facts.SampledNames) {
			t.Errorf("of %d: a name is looked up by %d nodes", n, least)
		}
	}
}

// calls counts the calls that leave a part of a fleet. If leave is false, it counts those that
// enter the part.
func calls(callees [][]int, part map[int]bool, leave bool) (crossing int) {
	for i, called := range callees {
		for _, j := range called {
			if part[i] == leave && part[j] != leave {
				crossing++
			}
		}
	}
	return crossing
}

// TestMissed checks that a sample misses as many faults as proof.Missed predicts. The seeds are
// fixed, so the result is too. The tolerance is four standard deviations.
func TestMissed(t *testing.T) {
	const n, runs = 200, 4000
	pair := 1 - proof.PairFound(n)
	for name, c := range map[string]struct {
		a, b   int
		both   bool // calls in both directions fail
		faults int  // number of such faults
		missed float64
	}{
		"one pair, one direction":      {1, 1, false, 1, pair},
		"one pair":                     {1, 1, true, 1, 1 - 2*proof.PairFound(n)},
		"two pairs, one direction":     {1, 1, false, 2, pair * pair},
		"one node does not reach ten":  {1, 10, false, 1, proof.Missed(n, 1, 10) * (1 - 10.0/(n-1))},
		"ten do not reach one":         {10, 1, false, 1, proof.Missed(n, 10, 1) * (1 - 10.0/(n-1))},
		"racks of four and of eight":   {4, 8, false, 1, math.Pow(proof.Missed(n, 4, 8), 7.0/6)},
		"racks of eight and of four":   {8, 4, false, 1, math.Pow(proof.Missed(n, 8, 4), 7.0/6)},
		"one node does not reach half": {1, n / 2, false, 1, math.Pow(proof.Missed(n, 1, n/2), 7.0/6)},
		"one does not reach the rest":  {1, n - 1, false, 1, 0},
		"one half not the other":       {n / 2, n / 2, false, 1, 0},
	} {
		missed := 0
		random := rand.New(rand.NewPCG(uint64(c.a), uint64(c.b)))
		for run := range uint64(runs) {
			callees, found := sample(n, run), false
			for range c.faults {
				order := random.Perm(n) // the faulty nodes' positions in the hostfile
				from, to := order[:c.a], order[c.a:c.a+c.b]
				found = found || callsAny(callees, from, to) || c.both && callsAny(callees, to, from)
			}
			if !found {
				missed++
			}
		}
		deviation := 4 * math.Sqrt(runs*c.missed*(1-c.missed))
		if want := runs * c.missed; math.Abs(float64(missed)-want) > deviation {
			t.Errorf("%s: missed in %d of %d runs, want %.0f ± %.0f", name, missed, runs, want, deviation)
		}
	}
}

// TestMissedByPlace checks racks whose nodes are next to each other in the hostfile. Compared with
// nodes in random places, only what the hostfile's own order adds may differ.
func TestMissedByPlace(t *testing.T) {
	const n, runs, size = 1024, 1500, 16
	from, to := make([]int, size), make([]int, size)
	for i := range size {
		from[i], to[i] = 100+i, 600+i
	}
	missed := 0
	for run := range uint64(runs) {
		if !callsAny(sample(n, run), from, to) {
			missed++
		}
	}
	p := proof.Missed(n, size, size)
	if want, deviation := runs*p, 4*math.Sqrt(runs*p*(1-p)); math.Abs(float64(missed)-want) > deviation {
		t.Errorf("two racks: missed in %d of %d runs, want %.0f ± %.0f", missed, runs, want, deviation)
	}
}

func callsAny(callees [][]int, from, to []int) bool {
	return slices.ContainsFunc(from, func(i int) bool {
		return slices.ContainsFunc(to, func(j int) bool { return slices.Contains(callees[i], j) })
	})
}

// TestSampleBlamesAsTheFullMesh checks that a sample gives the same verdict as calls between all
// pairs. It tries faulty nodes and parts of the fleet that are cut off.
func TestSampleBlamesAsTheFullMesh(t *testing.T) {
	const n = 144
	names, everybody := make([]string, n), make([][]int, n)
	for i := range n {
		names[i] = fmt.Sprintf("w%d", i+1)
		for j := range n {
			everybody[i] = append(everybody[i], j)
		}
	}
	rack := func(i int) int { return i / 36 }
	for name, fails := range map[string]func(from, to int) bool{
		"nothing":              func(_, _ int) bool { return false },
		"a deaf node":          func(_, to int) bool { return to == 17 },
		"a mute node":          func(from, _ int) bool { return from == 17 },
		"a node cut off":       func(from, to int) bool { return from == 17 || to == 17 },
		"two deaf nodes":       func(_, to int) bool { return to == 17 || to == 90 },
		"deaf and mute":        func(from, to int) bool { return to == 17 || from == 90 },
		"two halves":           func(from, to int) bool { return from/72 != to/72 },
		"a leaf switch":        func(from, to int) bool { return (rack(from) == 2) != (rack(to) == 2) },
		"every leaf by itself": func(from, to int) bool { return rack(from) != rack(to) },
		"all but themselves":   func(from, to int) bool { return from != to },
	} {
		want := verdict(names, everybody, fails)
		for seed := range uint64(20) {
			if diff := cmp.Diff(want, verdict(names, sample(n, seed), fails)); diff != "" {
				t.Errorf("%s, seed %d (-everybody +sample):\n%s", name, seed, diff)
				break
			}
		}
	}
}

// verdict returns, as text, what proof.Suspects blames for the failed calls.
func verdict(names []string, callees [][]int, fails func(from, to int) bool) (words []string) {
	var attempts []proof.Attempt
	for i, called := range callees {
		for _, j := range called {
			if i != j {
				attempt := proof.Attempt{From: names[i], To: names[j], Failed: fails(i, j)}
				if attempt.Failed {
					attempt.How = string(facts.PathDropped)
				}
				attempts = append(attempts, attempt)
			}
		}
	}
	for _, s := range proof.Suspects(names, attempts) {
		words = append(words, fmt.Sprint(s.Kind, s.All, s.Nodes, s.Sets))
	}
	return words
}
