// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/checks/engine"
	"preflight/checks/proof"
	"preflight/facts"
	"preflight/testhosts/fleettest"
)

// wire returns the outcome of a connection from the i-th node to the j-th node, counted from 1. ""
// means that the connection was answered.
type wire func(i, j int) facts.PathOutcome

// wired returns a healthy fleet whose nodes connect to each other with the outcomes of a wire.
func wired(n int, w wire) fleettest.Fleet {
	fleet := fleettest.Healthy(n)
	place := map[string]int{}
	for i := range fleet.Nodes {
		place[fleet.Nodes[i].Name] = i + 1
	}
	for i := range fleet.Nodes {
		mesh := fleet.Nodes[i].Mesh
		called := slices.SortedFunc(maps.Keys(mesh.Reached), func(a, b string) int { return place[a] - place[b] })
		for _, name := range called {
			peer, outcome := fleet.Nodes[place[name]-1], w(i+1, place[name])
			if outcome == "" {
				continue
			}
			delete(mesh.Reached, peer.Name)
			answers := true
			path := facts.Path{Peer: peer.Name, To: peer.Address, Port: 44111, Outcome: outcome, Seconds: 1.5, Error: string(outcome) + " said the system", Control: &answers}
			if outcome == facts.PathBlackhole {
				path.MSS, path.Stuck = 8948, "to"
			}
			mesh.Failed = append(mesh.Failed, path)
		}
	}
	return fleet
}

// TestSuspects plants one or two faults between nodes, and expects findings for exactly the nodes
// with the faults.
func TestSuspects(t *testing.T) {
	const (
		dropped, refused, rejected = facts.PathDropped, facts.PathRefused, facts.PathRejected
		unroutable, silent         = facts.PathUnroutable, facts.PathSilent
	)
	when := func(outcome facts.PathOutcome, bad func(i, j int) bool) wire {
		return func(i, j int) facts.PathOutcome {
			if i != j && bad(i, j) {
				return outcome
			}
			return ""
		}
	}
	for name, c := range map[string]struct {
		wire  wire
		sizes []int
		want  []string // each entry has the form "nodes: start of the summary"
	}{
		"nothing": {when(dropped, func(i, j int) bool { return false }), []int{1, 2, 4, 16, 300}, nil},
		"nobody gets in": {
			when(dropped, func(i, j int) bool { return j == 3 }), []int{3, 4, 16, 1000},
			[]string{"w3: no other node reaches it on ports 32768-60999 (port 22 answers): its firewall drops"},
		},
		"nobody gets into two": {
			when(refused, func(i, j int) bool { return j == 3 || j == 4 }), []int{4, 16, 300},
			[]string{"w3 w4: no other node reaches it"},
		},
		"nobody gets into most": {
			when(rejected, func(i, j int) bool { return j > 1 }), []int{4, 16},
			[]string{"*: no other node reaches it"},
		},
		"nothing gets out": {
			when(dropped, func(i, j int) bool { return i == 2 }), []int{3, 4, 16, 300},
			[]string{"w2: reaches no other node on ports"},
		},
		"nothing gets out of two of three": {
			when(dropped, func(i, j int) bool { return i > 1 }), []int{3},
			[]string{"w2 w3: reaches no other node on ports"},
		},
		"out to some": {
			when(dropped, func(i, j int) bool { return i == 4 && j < 3 }), []int{4, 16},
			[]string{"w4: cannot reach w[1-2] on"},
		},
		"both ways with some": {
			when(dropped, func(i, j int) bool { return i == 4 && j < 3 || j == 4 && i < 3 }), []int{4, 16},
			[]string{"w4: cannot reach w[1-2] on"},
		},
		"a node and a direction": {
			when(dropped, func(i, j int) bool { return j == 3 || i == 1 && j == 2 }), []int{4, 16},
			[]string{"w3: no other node reaches it", "w1 w2: w2 → w1 passes, w1 → w2 is dropped"},
		},
		"two causes": {
			when(dropped, func(i, j int) bool { return i == 2 || j == 3 }), []int{4, 16, 300},
			[]string{"w2: reaches no other node", "w3: no other node reaches it"},
		},
		"neither in nor out": {
			when(silent, func(i, j int) bool { return i == 4 || j == 4 }), []int{4, 16, 300},
			[]string{"w4: neither reaches other nodes nor is reached on ports 32768-60999"},
		},
		"out by its own words, in dropped": {
			func(i, j int) facts.PathOutcome {
				switch {
				case i == j:
				case i == 3:
					return unroutable
				case j == 3:
					return dropped
				}
				return ""
			}, []int{3, 4, 16, 300}, []string{"w3: has no route to any other node"},
		},
		"no route to some": {
			func(i, j int) facts.PathOutcome {
				switch {
				case i == 3 && j < 3:
					return unroutable
				case j == 3 && i < 3:
					return dropped
				}
				return ""
			}, []int{4, 16}, []string{"w3: has no route to w[1-2]: it"},
		},
		"one way between two": {
			when(dropped, func(i, j int) bool { return i == 2 && j == 1 }), []int{2, 3, 4, 16},
			[]string{"w1 w2: w1 → w2 passes, w2 → w1 is dropped on ports 32768-60999 (port 22 answers)"},
		},
		"both ways between two": {
			when(dropped, func(i, j int) bool { return i+j == 3 }), []int{4, 16},
			[]string{"w1 w2: w1 ↔ w2 does not get through"},
		},
		"both ways, one end gets a reason": {
			func(i, j int) facts.PathOutcome {
				switch {
				case i == 1 && j == 2:
					return rejected
				case i == 2 && j == 1:
					return dropped
				}
				return ""
			}, []int{4, 16}, []string{"w1 w2: w1 ↔ w2 does not get through on ports 32768-60999 (port 22 answers): a firewall or router rejects"},
		},
		"two single directions": {
			when(dropped, func(i, j int) bool { return i == 2 && j == 1 || i == 3 && j == 4 }), []int{4, 16},
			[]string{"w1 w2 w3 w4: some nodes do not reach others"},
		},
		"some peers": {
			when(dropped, func(i, j int) bool { return j == 4 && i < 3 }), []int{4, 16},
			[]string{"w4: w[1-2] cannot reach it on"},
		},
		"three with peers of their own": {
			when(dropped, func(i, j int) bool { return j <= 3 && i > 4 && (i-5)/3 == j-1 }), []int{16},
			[]string{"w1: w[5-7] cannot reach it on", "w2: w[8-10] cannot reach it on", "w3: w[11-13] cannot reach it on"},
		},
		"many with peers of their own": {
			when(dropped, func(i, j int) bool { return j <= 4 && i > 4 && (i-5)/3 == j-1 }), []int{16},
			[]string{"*: some nodes do not reach others"},
		},
		"one way between racks": {
			when(dropped, func(i, j int) bool { return i < 3 && j > 2 }), []int{4},
			[]string{"w1 w2 w3 w4: w[1-2] → w[3-4] does not get through"},
		},
		"racks": {
			when(dropped, func(i, j int) bool { return (i <= 2) != (j <= 2) }), []int{16},
			[]string{"*: w[3-16] and w[1-2] do not reach each other"},
		},
		"halves": {
			when(rejected, func(i, j int) bool { return (i <= 500) != (j <= 500) }), []int{1000},
			[]string{"*: w[1-500] and w[501-1000] do not reach each other on ports"},
		},
		"nothing passes anywhere": {
			when(dropped, func(i, j int) bool { return true }), []int{2, 3, 4, 16, 300},
			[]string{"*: no node reaches another on ports 32768-60999"},
		},
		"its own address": {
			func(i, j int) facts.PathOutcome {
				if i == 2 && j == 2 {
					return dropped
				}
				return ""
			}, []int{1 + 1, 4, 1000}, []string{"w2: cannot reach its own address"},
		},
		"nobody gets in, itself included": {
			func(i, j int) facts.PathOutcome {
				if j == 3 {
					return refused
				}
				return ""
			}, []int{4, 300}, []string{"w3: no other node reaches it"},
		},
	} {
		for _, n := range c.sizes {
			fleet := wired(n, c.wire)
			report := engine.Evaluate([]checks.Check{NodeMesh}, fleet.Fleet, fleet.Launch, checks.DefaultPolicy())
			var got []string
			for i, f := range report.Findings {
				names := strings.Join(f.Nodes, " ")
				want := cmp.Or(strings.Join(c.want[min(i, len(c.want)):min(i+1, len(c.want))], ""), "nothing")
				text := names + ": " + f.Summary
				if whole, rest, _ := strings.Cut(want, ": "); whole == "*" {
					want = rest
					text = f.Summary
					if short := n - len(f.Nodes); short > 1 {
						t.Errorf("%s, %d nodes: only %d named", name, n, len(f.Nodes))
					}
				}
				got = append(got, text)
				if !strings.HasPrefix(text, want) {
					t.Errorf("%s, %d nodes: %q, want %q", name, n, text, want)
				}
				if f.Summary == "" || len(f.Fix) == 0 || f.WouldSee == "" {
					t.Errorf("nothing to be done about %+v", f)
				}
			}
			if len(got) != len(c.want) {
				t.Errorf("%s, %d nodes: found %q, want %q", name, n, got, c.want)
			}
		}
	}
}

// TestUnevenSample checks a pair that fails in both directions while nodes made different numbers
// of connections. It must still be reported as one pair.
func TestUnevenSample(t *testing.T) {
	names := []string{"w1", "w2", "w3", "w4", "w5", "w6"}
	attempts := []proof.Attempt{{From: "w1", To: "w2", Failed: true, How: "dropped"}, {From: "w2", To: "w1", Failed: true, How: "dropped"}}
	for _, pass := range []string{"w1 w3", "w1 w4", "w1 w5", "w2 w3", "w3 w1", "w4 w1", "w5 w1", "w6 w1", "w3 w2", "w4 w5", "w5 w6"} {
		from, to, _ := strings.Cut(pass, " ")
		attempts = append(attempts, proof.Attempt{From: from, To: to})
	}
	found := proof.Suspects(names, attempts)
	if len(found) != 1 || found[0].Kind != proof.Directions || !slices.Equal(found[0].Nodes, []string{"w1", "w2"}) {
		t.Errorf("found %+v, want the pair", found)
	}
}

// TestIPv6 checks that addresses and commands have the address family of the nodes.
func TestIPv6(t *testing.T) {
	fleet := wired(4, func(i, j int) facts.PathOutcome {
		if j == 3 && i != j {
			return facts.PathDropped
		}
		return ""
	})
	for i := range fleet.Nodes {
		node := &fleet.Nodes[i]
		node.Net, node.Mesh.Address = nil, fmt.Sprintf("fd00::%d", i+1)
		for k := range node.Mesh.Failed {
			node.Mesh.Failed[k].To = "fd00::3"
		}
	}
	f := engine.Evaluate([]checks.Check{NodeMesh}, fleet.Fleet, fleet.Launch, checks.DefaultPolicy()).Findings[0]
	if !strings.Contains(f.Got, "w1 to [fd00::3]:44111") || !strings.HasPrefix(f.Fix[0], "ssh -n w3 sudo ip6tables -I INPUT -p tcp -s fd00::1/128,") {
		t.Errorf("got %q, fix %q", f.Got, f.Fix[0])
	}
}

// TestSampleIsSaid checks that a finding names the size of the sample if not all connections were
// tried.
func TestSampleIsSaid(t *testing.T) {
	for n, want := range map[int]bool{16: false, 1000: true} {
		fleet := wired(n, func(i, j int) facts.PathOutcome {
			if j == 3 && i != j {
				return facts.PathDropped
			}
			return ""
		})
		report := engine.Evaluate([]checks.Check{NodeMesh}, fleet.Fleet, fleet.Launch, checks.DefaultPolicy())
		const sample = "a sample of 7,000 of 999,000 connections"
		if got := report.Findings[0].Got; strings.Contains(got, sample) != want {
			t.Errorf("%d nodes: got %q", n, got)
		}
	}
}

// TestAnySuspectIsNamedAlone blocks every node of a fleet in turn, inbound and outbound.
func TestAnySuspectIsNamedAlone(t *testing.T) {
	for _, n := range []int{4, 17, 200} {
		for node := 1; node <= n; node += max(1, n/5) {
			for way, bad := range map[string]func(i, j int) bool{
				"in":   func(i, j int) bool { return j == node },
				"out":  func(i, j int) bool { return i == node },
				"both": func(i, j int) bool { return i == node || j == node },
			} {
				fleet := wired(n, func(i, j int) facts.PathOutcome {
					if i != j && bad(i, j) {
						return facts.PathDropped
					}
					return ""
				})
				report := engine.Evaluate([]checks.Check{NodeMesh}, fleet.Fleet, fleet.Launch, checks.DefaultPolicy())
				want := [][]string{{fmt.Sprintf("w%d", node)}}
				var got [][]string
				for _, f := range report.Findings {
					got = append(got, f.Nodes)
				}
				if diff := gocmp.Diff(want, got); diff != "" {
					t.Errorf("%s of w%d, %d nodes (-want +got):\n%s", way, node, n, diff)
				}
			}
		}
	}
}
