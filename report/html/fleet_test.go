// SPDX-License-Identifier: Apache-2.0

package html

import (
	"encoding/json"
	"testing"

	"preflight/checks"
	"preflight/checks/catalogue"
	"preflight/checks/engine"
	"preflight/facts"
	"preflight/testhosts/reporttest"
)

// underPolicy checks a fleet again with a baseline, a policy that some nodes break, and three
// waivers. One waiver covers a finding, one has ended, and one covers nothing.
func underPolicy(t *testing.T, r checks.Report) checks.Report {
	t.Helper()
	var before []facts.Node
	text, err := json.Marshal(r.Nodes)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &before); err != nil {
		t.Fatal(err)
	}
	for i := range before {
		if before[i].NVML != nil && i%3 == 0 {
			before[i].NVML.Driver = "550.54.15"
		}
		if before[i].Net != nil && i%5 == 1 {
			before[i].Net.Interfaces[0].MTU = 9000
		}
	}
	policy := checks.DefaultPolicy()
	policy.Baseline = &checks.Baseline{File: "golden.json", Head: r.Head, Nodes: before, NotTried: r.NotTried}
	policy.File, policy.Today = "preflight.yaml", "2026-11-21"
	policy.Expect = []checks.Expectation{
		{Fact: "nvml.driver", Is: []string{">=570.86"}, At: "preflight.yaml:4"},
		{Fact: "python.packages.protobuf", Is: []string{"<5"}, Severity: checks.Warning, At: "preflight.yaml:7"},
	}
	policy.Waivers = []checks.Waiver{
		{Check: "shm-size", Reason: "the image is built anew on Monday, ticket 4711", Owner: "ops@example.org", Until: "2027-01-31", At: "preflight.yaml:12"},
		{Check: "gpu-idle", Reason: "a notebook", Owner: "research@example.org", Until: "2026-10-31", At: "preflight.yaml:17"},
		{Check: "clock-skew", Nodes: []string{r.Nodes[0].Name}, Reason: "no NTP there", Until: "2027-01-31", At: "preflight.yaml:22"},
	}
	judged := engine.Evaluate(catalogue.Catalogue, r.Fleet, r.Launch, policy)
	judged.Version, judged.Hostfile, judged.Seconds = r.Version, r.Hostfile, r.Seconds
	return judged
}

// unreached returns a run that reached no node.
func unreached(t *testing.T) checks.Report {
	t.Helper()
	r := reporttest.Recorded(t)
	for i := range r.Nodes {
		node := &r.Nodes[i]
		*node = facts.Node{Name: node.Name, Slots: node.Slots, Facts: facts.Facts{SSH: r.Nodes[5].SSH}, Missing: r.Nodes[5].Missing}
	}
	judged := engine.Evaluate(catalogue.Catalogue, r.Fleet, r.Launch, checks.DefaultPolicy())
	judged.Version, judged.Hostfile, judged.Seconds = r.Version, r.Hostfile, r.Seconds
	return judged
}

// rename gives the i-th node another name everywhere in a report.
func rename(r *checks.Report, i int, name string) {
	old := r.Nodes[i].Name
	r.Nodes[i].Name = name
	swap := func(nodes []string) {
		for j := range nodes {
			if nodes[j] == old {
				nodes[j] = name
			}
		}
	}
	for _, f := range r.Findings {
		swap(f.Nodes)
	}
	for _, d := range r.Diff {
		for _, g := range d.Groups {
			swap(g.Nodes)
		}
	}
	for _, line := range r.Interconnect {
		swap(line.Nodes)
	}
}

// fullMesh returns a fleet in which every node connected to every other node, and one node answered
// no connection.
func fullMesh(t *testing.T, n int) checks.Report {
	r := largeFleet(t, n)
	for i := range r.Nodes {
		mesh := r.Nodes[i].Mesh
		for j := range r.Nodes {
			switch {
			case mesh == nil || r.Nodes[j].Mesh == nil:
			case j == 13 && i != j:
				delete(mesh.Reached, nodeName(j))
				mesh.Failed = append(mesh.Failed, facts.Path{Peer: nodeName(j), To: nodeAddress(j), Port: 40000, Outcome: facts.PathDropped, Seconds: 1.5})
			default:
				mesh.Reached[nodeName(j)] = 0.0002 * float64(1+(i*7+j*13)%5/4*3)
			}
		}
	}
	return r
}
