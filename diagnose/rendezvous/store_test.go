// SPDX-License-Identifier: Apache-2.0

package rendezvous

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/facts"
)

// store returns an endpoint at which a store answered.
func store(address string) *facts.Endpoint {
	return &facts.Endpoint{Addresses: []string{address}, Address: address, Interface: "eth0", Store: facts.GenerationPings, Keys: 4}
}

func shutOut(hop facts.Hop, outcome facts.PathOutcome) *facts.Endpoint {
	return &facts.Endpoint{Addresses: []string{"10.0.0.1"}, Failed: hop, Outcome: outcome, Error: "no answer in time"}
}

// TestOwnLoopback checks that results at a node's own loopback address do not count as results
// about the other nodes.
func TestOwnLoopback(t *testing.T) {
	for _, endpoint := range []string{"localhost:29500", "127.0.0.1:29500", "[::1]:29500"} {
		r := Report{Endpoint: endpoint, Here: *shutOut(facts.HopConnect, facts.PathRefused)}
		for _, name := range []string{"w1", "w2"} {
			r.Nodes = append(r.Nodes, Node{Node: facts.Node{Name: name, Reached: true, Address: "10.0.0.1"}, Seen: shutOut(facts.HopConnect, facts.PathRefused)})
		}
		Judge(&r, 0)
		if len(r.Findings) != 1 || !strings.HasSuffix(r.Findings[0].Summary, " is a loopback address, so each node connects to itself") || r.ExitCode != 1 {
			t.Errorf("%s: %+v", endpoint, r.Findings)
		}
	}
}

func TestJudgeEndpoint(t *testing.T) {
	dropped := shutOut(facts.HopConnect, facts.PathDropped)
	another := store("10.0.0.1")
	another.Preflight, another.Seconds = true, 4
	for _, c := range []struct {
		name string
		here *facts.Endpoint
		seen map[string]*facts.Endpoint // nil if the node was lost
		want []string                   // verdict, nodes and summary
		code int
	}{
		{"a store everywhere", store("10.0.0.1"), map[string]*facts.Endpoint{"w1": store("10.0.0.1"), "w2": store("10.0.0.1")}, nil, 0},
		{"only the head is shut out, which runs no rank", dropped, map[string]*facts.Endpoint{"w1": store("10.0.0.1"), "w2": store("10.0.0.1")}, nil, 0},
		{"no node asked, and the head is shut out", dropped, nil,
			[]string{"fail [] no answer from 10.0.0.1: a firewall drops packets to port 29500, or the machine is off"}, 1},
		{"one node is shut out", store("10.0.0.1"), map[string]*facts.Endpoint{"w1": store("10.0.0.1"), "w2": dropped, "w3": store("10.0.0.1")},
			[]string{"fail [w2] no answer from 10.0.0.1: a firewall drops packets to port 29500, or the machine is off"}, 1},
		{"another preflight everywhere", another, map[string]*facts.Endpoint{"w1": another, "w2": another},
			[]string{"unknown [w1 w2] another preflight uses this port and did not finish within 4 s: run this again when it has ended"}, 2},
		{"another preflight, no node asked", another, nil,
			[]string{"unknown [] another preflight uses this port and did not finish within 4 s: run this again when it has ended"}, 2},
		{"nobody listens", store("10.0.0.1"), map[string]*facts.Endpoint{"w1": shutOut(facts.HopConnect, facts.PathRefused), "w2": shutOut(facts.HopConnect, facts.PathRefused)},
			[]string{"fail [w1 w2] nothing listens on port 29500 of 10.0.0.1: rank 0 does not listen yet, has died, or uses another address"}, 1},
		{"another store than the others'", store("10.0.0.1"), map[string]*facts.Endpoint{"w1": store("10.0.0.1"), "w2": store("10.0.0.1"), "w3": store("10.9.9.9")},
			[]string{"warn [w3] w1 resolves to a different address than on w1, w2"}, 0},
		{"another address than the others', and no store", store("10.0.0.1"),
			map[string]*facts.Endpoint{"w1": store("10.0.0.1"), "w2": store("10.0.0.1"), "w3": {Addresses: []string{"10.9.9.9"}, Failed: facts.HopConnect, Outcome: facts.PathRefused}},
			[]string{"fail [w3] w1 resolves to a different address than on w1, w2"}, 1},
		{"its own name is a loopback to w1, as on Debian", store("10.0.0.1"),
			map[string]*facts.Endpoint{"w1": store("127.0.1.1"), "w2": store("10.0.0.1"), "w3": store("10.0.0.1")}, nil, 0},
		{"the name of another is a loopback", store("10.0.0.1"),
			map[string]*facts.Endpoint{"w1": store("10.0.0.1"), "w2": store("127.0.1.1"), "w3": store("10.0.0.1")},
			[]string{"warn [w2] w1 resolves to a different address than on w1, w3"}, 0},
		{"one node without IPv6", store("10.0.0.1"), map[string]*facts.Endpoint{
			"w1": store("10.0.0.1"), "w2": {Addresses: []string{"fd00::1", "10.0.0.1"}, Store: facts.GenerationPings}, "w3": store("fd00::1")}, nil, 0},
		{"two nodes, two addresses", store("10.0.0.1"), map[string]*facts.Endpoint{"w1": store("10.0.0.1"), "w2": store("10.9.9.9")},
			[]string{"warn [w1 w2] nodes resolve w1 to different addresses, and none has a majority"}, 0},
		{"an ssh server", store("10.0.0.1"), map[string]*facts.Endpoint{"w1": {Address: "10.0.0.1", Failed: facts.HopValidate, Outcome: facts.PathStranger, Greeting: "SSH-2.0-x"}},
			[]string{`fail [w1] port 29500 belongs to another service: it greets with "SSH-2.0-x"`}, 1},
		{"a node was lost", store("10.0.0.1"), map[string]*facts.Endpoint{"w1": store("10.0.0.1"), "w2": nil},
			[]string{"unknown [w2] not reached: connection refused"}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Report{Endpoint: "w1:29500", Here: *c.here}
			for _, name := range []string{"w1", "w2", "w3"} {
				if seen, asked := c.seen[name]; asked {
					node := Node{Node: facts.Node{Name: name, Reached: seen != nil}, Seen: seen}
					if seen == nil {
						node.SSH = &facts.SSH{Message: "connection refused"}
					}
					r.Nodes = append(r.Nodes, node)
				}
			}
			Judge(&r, 0)
			var got []string
			for _, f := range r.Findings {
				got = append(got, string(f.Verdict)+" "+fmt.Sprint(f.Nodes)+" "+f.Summary)
				if f.Verdict == checks.Fail && len(f.Fix) == 0 {
					t.Errorf("%q names no way out", f.Summary)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			if r.ExitCode != c.code {
				t.Errorf("exit code %d, want %d", r.ExitCode, c.code)
			}
		})
	}
}
