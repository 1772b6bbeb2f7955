// SPDX-License-Identifier: Apache-2.0

// Package reporttest provides reports for the tests of renderers. Only tests import it.
package reporttest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch/nccl"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Recorded returns the recorded run of `preflight demo`: eight nodes with one fault each.
func Recorded(t testing.TB) checks.Report {
	t.Helper()
	root := "." // root of the module; tests run in the directory of their package
	for _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil; _, err = os.Stat(filepath.Join(root, "go.mod")) {
		root = filepath.Join(root, "..")
	}
	text, err := os.ReadFile(filepath.Join(root, "cmd/preflight/demo.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r checks.Report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// Failing returns a run with a finding of every kind.
func Failing() checks.Report {
	return checks.Report{
		Schema: 1, Version: "v0", Verdict: checks.Fail, ExitCode: 1, Seconds: 0.42, Hostfile: "hostfile",
		Fleet: facts.Fleet{Nodes: []facts.Node{{Name: "w1", Reached: true}, {Name: "w2", Reached: true}, {Name: "w3", Reached: true}, {Name: "w4"}}},
		Checks: []checks.Outcome{
			{Check: "ssh-reach", Verdict: checks.Fail, Severity: checks.Error},
			{Check: "ssh-login", Verdict: checks.Unknown, Severity: checks.Error, Reason: "w4 not reached"},
			{Check: "shm-size", Verdict: checks.Fail, Severity: checks.Error},
			{Check: "env-sane", Verdict: checks.Warn, Severity: checks.Warning},
			{Check: "python-same", Verdict: checks.Unknown, Severity: checks.Error, Reason: "python: no answer within 5s"},
			{Check: "torch-same", Verdict: checks.Unknown, Severity: checks.Error, Reason: "python: no answer within 5s"},
			{Check: "ib-links", Verdict: checks.Skip, Severity: checks.Error, Reason: "no node has InfiniBand"},
			{Check: "host-distinct", Verdict: checks.Pass, Severity: checks.Error},
		},
		Findings: []checks.Finding{
			{Check: "ssh-reach", Verdict: checks.Fail, Nodes: []string{"w4"}, Summary: "nothing listens on port 22", Got: "connection refused",
				Fix: []string{"ssh w4 (from its console): sudo systemctl start ssh"}, WouldSee: "w4: ssh: connect to host w4 port 22: Connection refused"},
			{Check: "shm-size", Verdict: checks.Fail, Nodes: []string{"w2", "w3"},
				Summary: "/dev/shm is too small for the ranks on this node, so NCCL cannot make its shared memory segments",
				Got:     "64 MiB", Want: "at least 517 MiB: 8 ranks × 1 communicator × 32.6 MiB (NCCL 2.28-2.30) + 256 MiB headroom",
				Fix:      []string{"df -h /dev/shm", "pdsh -R ssh -w 'w[2-3]' 'sudo mount -o remount,size=16G /dev/shm'", "pdsh -R ssh -w 'w[2-3]' 'sudo systemctl restart slurmd'", "docker run --shm-size=16g …"},
				Roles:    []fix.Role{fix.Look, fix.Fix, fix.Then, fix.Or},
				WouldSee: "Error: failed to extend /dev/shm/nccl-AbCdEf to 34210180 bytes, error: No space left on device (28)"},
			{Check: "python-same", Verdict: checks.Unknown, Nodes: []string{"w1"}, Summary: "python: no answer within 5s"},
			{Check: "torch-same", Verdict: checks.Unknown, Nodes: []string{"w1"}, Summary: "python: no answer within 5s"},
			{Check: "env-sane", Verdict: checks.Warn, Nodes: []string{"w1", "w2", "w3", "w4"}, Summary: "a hostile \x1b[31mvalue\u202e and\ttab",
				Fix: []string{"unset X\x07"}, Notes: []string{"or take w1 out of the hostfile"}},
		},
		Diff: []checks.FactDiff{
			{Fact: "shm.size", Groups: []checks.FactGroup{
				{Value: json.RawMessage("17179869184"), Nodes: []string{"w1"}}, {Value: json.RawMessage("67108864"), Nodes: []string{"w2", "w3"}}}},
			{Fact: "python.packages.protobuf", Groups: []checks.FactGroup{
				{Value: json.RawMessage(`"3.20.1"`), Nodes: []string{"w1", "w2"}}, {Value: nil, Nodes: []string{"w3"}}}},
			{Fact: "net.interfaces.eth0.speed", Groups: []checks.FactGroup{
				{Value: json.RawMessage(`100000000000`), Nodes: []string{"w1", "w2"}}, {Value: json.RawMessage(`1000000000`), Nodes: []string{"w3"}}}},
			{Fact: "limits.memlock.soft", Groups: []checks.FactGroup{
				{Value: json.RawMessage(`-1`), Nodes: []string{"w1", "w2"}}, {Value: json.RawMessage(`65536`), Nodes: []string{"w3"}}}},
		},
	}
}

// Passing returns a run without problems.
func Passing() checks.Report {
	return checks.Report{
		Schema: 1, Verdict: checks.Pass, Seconds: 0.3, Hostfile: "hostfile",
		Fleet:  facts.Fleet{Nodes: []facts.Node{{Name: "w1", Reached: true}}},
		Checks: []checks.Outcome{{Check: "ssh-reach", Verdict: checks.Pass}, {Check: "ib-links", Verdict: checks.Skip, Reason: "no node has InfiniBand"}},
	}
}

// Wired returns a run in which nodes connected to each other. One node got no connection back, so
// it did not see the complete group.
func Wired() checks.Report {
	r := Passing()
	r.Nodes = nil
	for i, name := range []string{"w1", "w2", "w3"} {
		node := facts.Node{Name: name, Reached: true}
		node.Mesh = &facts.Mesh{Interface: "eth0", Address: "10.0.0." + name[1:], Reached: map[string]float64{name: 0.0001, "w1": 0.002, "w2": 0.0031}}
		node.Rendezvous = &facts.Rendezvous{Endpoint: "10.0.0.1:29500", Joined: 0.001 * float64(i+1), Complete: 0.004}
		node.Throughput = &facts.Throughput{Peer: "w1", Interface: "eth0", Rate: 9.4e9}
		r.Nodes = append(r.Nodes, node)
	}
	r.Nodes[1].Mesh.Failed = []facts.Path{{Peer: "w3", Outcome: facts.PathDropped}}
	for i := range r.Nodes {
		r.Nodes[i].Rendezvous.Failed, r.Nodes[i].Rendezvous.Complete = facts.HopWait, 0
	}
	r.Nodes[2].Rendezvous.Joined = 0
	r.Findings = []checks.Finding{{Check: "node-mesh", Verdict: checks.Fail, Nodes: []string{"w3"}, Summary: "cannot be reached", Fix: []string{"ssh w3 true"}}}
	r.Advice = checks.Advice{Env: []checks.AdvisedEnv{{Name: "NCCL_SOCKET_IFNAME", Value: "eth0", Why: "6 of 6 pairs answered on eth0"}}, Args: []string{"--master_addr=10.0.0.1"}, Program: "deepspeed"}
	return r
}

// Smoked returns a run whose smoke test passed: all ranks reduced at about the same rate.
func Smoked() checks.Report {
	r := Passing()
	r.Nodes, r.Checks = nil, append(r.Checks, checks.Outcome{Check: "gpu-computes", Verdict: checks.Pass}, checks.Outcome{Check: "collective", Verdict: checks.Pass})
	for i, name := range []string{"w1", "w2", "w3", "w4"} {
		node := facts.Node{Name: name, Reached: true}
		node.Smoke = &facts.Smoke{Engine: "direct", Backend: "nccl"}
		for rank := range 8 {
			node.Smoke.Ranks = append(node.Smoke.Ranks, facts.SmokeRank{
				LocalRank: rank, Device: rank, Rate: 6e14 - 1e12*float64(i+rank), HostToDevice: 4.3e11, DeviceToHost: 4.2e11, DeviceToDevice: 1.1e13,
			})
		}
		rate := 1.84e11
		if name == "w3" {
			rate *= 0.96
		}
		node.Smoke.Trials = []facts.SmokeTrial{
			{Stage: facts.SmokeOne, Nodes: 4, Ranks: 4, Passed: true, Rate: 1e11},
			{Stage: facts.SmokeAll, Nodes: 4, Ranks: 32, Passed: true, Rate: rate},
		}
		r.Nodes = append(r.Nodes, node)
	}
	return r
}

// Isolated returns a run with two problems in the smoke test. One node could reduce with no other
// node, and a rank of another node could not compute.
func Isolated() checks.Report {
	r := Smoked()
	hang := []facts.SmokeFailure{{Kind: facts.SmokeHang, Call: "ncclAllReduce", Message: "nothing came for 8 s"}}
	pair := func(with string, passed bool) facts.SmokeTrial {
		t := facts.SmokeTrial{Stage: facts.SmokePair, Nodes: 2, With: []string{with}, Ranks: 16, Passed: passed, Seconds: 2.1, Rate: 1.7e11}
		if !passed {
			t.Rate, t.Seconds, t.Failures = 0, 8, hang
		}
		return t
	}
	rail := func(with, name string, passed bool) facts.SmokeTrial {
		t := pair(with, passed)
		t.Stage, t.Rail, t.Ranks = facts.SmokeRail, name, 2
		return t
	}
	for i, pairs := range [][]facts.SmokeTrial{
		{pair("w2", true), pair("w3", false), rail("w3", "mlx5_0:1", true), rail("w3", "mlx5_1:1", false)},
		{pair("w1", true), pair("w3", false)},
		{pair("w2", false), pair("w1", false), rail("w1", "mlx5_0:1", true), rail("w1", "mlx5_1:1", false)}, nil,
	} {
		smoke := r.Nodes[i].Smoke
		smoke.Trials = append([]facts.SmokeTrial{{Stage: facts.SmokeOne, Nodes: 3, Ranks: 3, Failures: hang}}, pairs...)
	}
	alone := r.Nodes[3].Smoke
	alone.Trials, alone.Fault = nil, facts.FaultAlone
	alone.Ranks[5].Rate, alone.Ranks[5].Failure = 0, &facts.SmokeFailure{LocalRank: 5, Kind: facts.SmokeWrong, Call: "load"}
	r.Verdict, r.ExitCode = checks.Fail, 1
	r.Checks = r.Checks[:2]
	r.Findings = []checks.Finding{{Check: "collective", Verdict: checks.Fail, Nodes: []string{"w3"}, Summary: "fails to reduce with each of w[1-2], who are well without it"}}
	return r
}

// Fabric returns a run over nodes whose GPUs are connected in several ways.
func Fabric() checks.Report {
	r := Passing()
	r.Nodes = nil
	for i, model := range []string{"NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3", "NVIDIA L4"} {
		node := facts.Node{Name: fmt.Sprintf("w%d", i+1), Reached: true}
		link := "NV18"
		if i == 2 {
			link = "SYS"
		}
		node.NVML = &facts.NVML{Source: "nvml", Driver: "550.54.15", CUDA: "12.4", Topology: [][]string{{"X", link}, {link, "X"}}}
		node.GPU = &facts.GPU{}
		for card := range 2 {
			address := fmt.Sprintf("0000:%d0:00.0", card+1)
			node.NVML.Cards = append(node.NVML.Cards, facts.Card{Index: card, Name: model, Address: address})
			node.GPU.OnBus = append(node.GPU.OnBus, facts.PCIGPU{Address: address, NUMANode: card, Path: []string{fmt.Sprintf("pci0000:0%d", card), "0000:00:01.0", address}})
		}
		node.IB = &facts.IB{Devices: []facts.HCA{{Name: "mlx5_0", Path: []string{"pci0000:00", "0000:00:01.0", "0000:11:00.0"}}}}
		r.Nodes = append(r.Nodes, node)
	}
	ib := nccl.Transport{Name: "InfiniBand", Detail: "mlx5_0, 400 Gbit/s, GPUDirect"}
	r.Nodes = append(r.Nodes, facts.Node{Name: "w4", Reached: true, Facts: facts.Facts{NVML: &facts.NVML{}}})
	r.Interconnect = []checks.Interconnect{
		{Nodes: []string{"w1", "w2"}, Inside: nccl.Transport{Name: "NVLink", Detail: "NV18 between both GPUs"}, Between: ib},
		{Nodes: []string{"w3"}, Inside: nccl.Transport{Name: "shared memory", Why: "the GPUs cannot reach each other"}, Between: ib},
	}
	return r
}

// Evil is a text with which a node might try to break out of the format that quotes it.
const Evil = "a|b ]]> --> </details></td><script>x</script> ![i](http://evil.example) [l](//e) `c` ```\n```\n````\n```sh\n| r | " +
	"@octocat #1 www.evil.example 10.0.0.1:100: $x$ *b* __u__ ~~s~~ &lt; \"q\" \\ \\| 'p' %0A::error::in\r\n::error title=x::out\n" +
	"preflight_verdict{} 9\n\x1b[2J\x00\x9b\u202e\u200b\ufffe\uffff\xff\U000e0001 end"

// evilSmoke is a smoke test in which every text that a report shows is Evil.
var evilSmoke = &facts.Smoke{
	Engine: Evil, Backend: Evil, Ranks: []facts.SmokeRank{{Name: Evil, Address: Evil, Failure: &facts.SmokeFailure{Call: Evil, Message: Evil, Log: []string{Evil}}}},
	Trials: []facts.SmokeTrial{{Stage: Evil, Nodes: 2, Passed: true}, {Stage: facts.SmokePair, Nodes: 2, With: []string{Evil}}},
}

// evilRehearsal is a rehearsal in which every text that a report shows is Evil.
var evilRehearsal = &facts.Rehearsed{
	Program: &facts.RehearsedProgram{ExitCode: 1, Output: Evil}, Ranks: []facts.RehearsedRank{{Stage: Evil, End: Evil, Error: Evil, Trace: Evil}},
}

// Hostile returns a run in which every text that can come from a node is Evil.
func Hostile() checks.Report {
	return checks.Report{
		Schema: 1, Version: Evil, Verdict: checks.Fail, ExitCode: 1, Seconds: 1, Hostfile: Evil,
		Fleet: facts.Fleet{
			Head:  &facts.Node{Facts: facts.Facts{Host: &facts.Host{Hostname: Evil}}},
			Nodes: []facts.Node{{Name: Evil, Reached: true, Facts: facts.Facts{Smoke: evilSmoke, Rehearsed: evilRehearsal}}, {Name: "w2", Reached: true}},
		},
		Checks: []checks.Outcome{
			{Check: "shm-size", Verdict: checks.Fail}, {Check: "env-sane", Verdict: checks.Warn},
			{Check: "python-same", Verdict: checks.Unknown, Reason: Evil}, {Check: "ib-links", Verdict: checks.Skip, Reason: Evil},
		},
		Findings: []checks.Finding{
			{Check: "shm-size", Verdict: checks.Fail, Nodes: []string{Evil}, Summary: Evil, Got: Evil, Want: Evil, Fix: []string{Evil, Evil}, Notes: []string{Evil}, WouldSee: Evil},
			{Check: "python-same", Verdict: checks.Unknown, Nodes: []string{Evil}, Summary: Evil},
			{Check: "env-sane", Verdict: checks.Warn, Nodes: []string{"w2"}, Summary: Evil, Fix: []string{Evil}},
		},
		Waived: []checks.Waived{{Finding: checks.Finding{Check: "ib-links", Verdict: checks.Fail, Nodes: []string{Evil}, Summary: Evil, At: Evil}, Reason: Evil, Owner: Evil, Until: Evil, At: Evil + ":1"}},
		Diff: []checks.FactDiff{{Fact: "env." + Evil, Groups: []checks.FactGroup{
			{Value: []byte(`"` + strings.Repeat("|x", 4) + `"`), Nodes: []string{Evil}}, {Nodes: []string{"w2"}},
		}}},
	}
}

// Strict returns a run that failed only because of warnings.
func Strict() checks.Report {
	r := Failing()
	r.Strict = true
	r.Findings = r.Findings[4:]
	r.Checks = []checks.Outcome{{Check: "env-sane", Verdict: checks.Warn, Severity: checks.Warning}}
	return r
}

// Interrupted returns a run whose exit code no check explains.
func Interrupted() checks.Report {
	r := Passing()
	r.Interrupted, r.Verdict, r.ExitCode = true, checks.Unknown, 2
	return r
}

// Undecided returns a run without any result and without a finding that says why.
func Undecided() checks.Report {
	r := Passing()
	r.Verdict, r.ExitCode = checks.Unknown, 2
	r.Checks = []checks.Outcome{{Check: "ssh-login", Verdict: checks.Unknown, Reason: "w1 not reached"}, {Check: "shm-size", Verdict: checks.Unknown, Reason: "w1 not reached"}}
	return r
}

// Orphaned returns a run with a finding of a check that the report does not list.
func Orphaned() checks.Report {
	r := Passing()
	r.Verdict, r.ExitCode = checks.Fail, 1
	r.Findings = []checks.Finding{{Check: "drift", Verdict: checks.Fail, Nodes: []string{"w1"}, Summary: "it moved"}}
	return r
}

// Waiving returns a run with two waived defects. One is waived on some of its nodes, the other on
// all of its nodes.
func Waiving() checks.Report {
	r := Failing()
	r.Policy, r.Began = "preflight.yaml", "2026-11-21T19:20:00Z"
	r.Checks = append(r.Checks, checks.Outcome{Check: "path-mtu", Verdict: checks.Skip, Severity: checks.Error, Reason: checks.AllWaived})
	r.Findings = append(r.Findings, checks.Finding{Check: "expectation", Verdict: checks.Fail, Nodes: []string{"w3"}, Summary: "net.mtu is not what the policy states", At: "preflight.yaml:12"})
	r.Waived = []checks.Waived{
		{Finding: checks.Finding{Check: "shm-size", Verdict: checks.Fail, Nodes: []string{"w1"}, Summary: "/dev/shm is too small"},
			Reason: "docker's default", Owner: "ops", Until: "2026-12-31", At: "preflight.yaml:31"},
		{Finding: checks.Finding{Check: "path-mtu", Verdict: checks.Warn, Nodes: []string{"w2", "w3"}, Summary: "MTUs differ"},
			Reason: "new switch", Owner: "net", Until: "2027-01-15", At: "/etc/preflight.yaml:9"},
	}
	return r
}

// Cases returns runs that every renderer must show correctly, by name.
func Cases() map[string]checks.Report {
	return map[string]checks.Report{
		"failing": Failing(), "passing": Passing(), "strict": Strict(), "interrupted": Interrupted(), "undecided": Undecided(), "orphaned": Orphaned(), "hostile": Hostile(), "waiving": Waiving(),
	}
}

// Rendered returns what a renderer writes for a report.
func Rendered(t *testing.T, render func(io.Writer, checks.Report) error, r checks.Report) string {
	t.Helper()
	var out bytes.Buffer
	if err := render(&out, r); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Golden compares what was written with a file in testdata. With -update it rewrites the file.
func Golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got), -update rewrites it:\n%s", path, diff)
	}
}
