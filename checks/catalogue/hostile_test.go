// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"fmt"
	"strings"
	"testing"

	"preflight/checks"
	"preflight/checks/engine"
	"preflight/checks/gpu"
	"preflight/checks/network"
	"preflight/facts"
	"preflight/launch"
	"preflight/testhosts/fleettest"
	"preflight/testhosts/sandbox"
)

// TestWhatANodeSendsIsNoCommand makes nodes send text that a shell would run. It checks every fix
// for places where the local shell or the node's shell would run that text.
func TestWhatANodeSendsIsNoCommand(t *testing.T) {
	const evil = "x$(touch${IFS}pwned)';touch pwned;'"
	failed := func(outcome facts.PathOutcome) func(*fleettest.Fleet) {
		return func(l *fleettest.Fleet) {
			mesh := l.Nodes[1].Mesh
			delete(mesh.Reached, "w1")
			mesh.Failed = []facts.Path{{Peer: "w1", To: evil, Port: 40000, Outcome: outcome, Answered: evil}}
		}
	}
	each := func(l *fleettest.Fleet, do func(*facts.Node)) {
		for i := range l.Nodes {
			do(&l.Nodes[i])
		}
	}
	var lines sandbox.Lines
	for name, change := range map[string]func(*fleettest.Fleet){
		"a stranger":         failed(facts.PathStranger),
		"misdirected":        failed(facts.PathMisdirected),
		"unroutable":         failed(facts.PathUnroutable),
		"an MTU":             failed(facts.PathBlackhole),
		"a call to itself":   func(l *fleettest.Fleet) { failed(facts.PathDropped)(l); l.Nodes[1].Mesh.Failed[0].Peer = "w2" },
		"a callee's address": func(l *fleettest.Fleet) { failed(facts.PathBlackhole)(l); l.Nodes[0].Mesh.Address = evil },
		"an interface":       func(l *fleettest.Fleet) { fleettest.Rename(&l.Nodes[1], evil) },
		"a name without route": func(l *fleettest.Fleet) {
			fleettest.Rename(&l.Nodes[1], evil)
			failed(facts.PathUnroutable)(l)
			l.Nodes[1].Mesh.Failed[0].To = "10.0.0.1"
		},
		"a device": func(l *fleettest.Fleet) { l.Nodes[1].IB.Devices[0].Name = evil },
		"a setting": func(l *fleettest.Fleet) {
			l.Nodes[1].Env.Vars = []facts.Setting{{Name: "NCCL_" + evil, Value: evil, Source: "/etc/" + evil}}
		},
		"a setting's file": func(l *fleettest.Fleet) {
			l.Nodes[1].Env.Vars = []facts.Setting{{Name: "NCCL_SOCKET_IFNAME", Value: "eth7", Source: "/etc/" + evil}}
		},
		"a torch": func(l *fleettest.Fleet) { l.Nodes[1].Python.Torch.Version = "2.0+cu" + evil },
		"all but one torch": func(l *fleettest.Fleet) {
			each(l, func(n *facts.Node) { n.Python.Torch.Version = "2.0+cu" + evil })
			l.Nodes[1].Python.Torch.Version = "2.1"
		},
		"a source tree": func(l *fleettest.Fleet) {
			l.Head.Files = nil
			each(l, func(n *facts.Node) {
				n.Files.Sources = &facts.Sources{Root: evil, Digest: evil, Files: map[string]string{evil: evil}}
				n.Files.Repository = &facts.Repository{Root: evil, Commit: evil, Branch: evil}
				n.Files.WorkDir.Problem = evil
			})
			l.Nodes[1].Files.Sources.Digest, l.Nodes[1].Files.Repository.Commit = "else", "else"
		},
		"a digest of the same sources": func(l *fleettest.Fleet) { l.Nodes[1].Files.Sources.Digest = evil },
		"a script": func(l *fleettest.Fleet) {
			l.Head.Files = nil
			l.Nodes[1].Files.Files[0].Kind, l.Nodes[1].Files.Files[1].Problem = evil, evil
			l.Nodes[0].Files.Files[2].Exists, l.Nodes[0].Files.Files[2].Problem = false, evil
		},
		"a GPU":    func(l *fleettest.Fleet) { l.Nodes[1].GPU.Devices, l.Nodes[1].GPU.Driver = []string{evil}, nil },
		"a driver": func(l *fleettest.Fleet) { l.Nodes[1].NVML.Driver, l.Nodes[1].NVML.CUDA = evil, evil },
		"all but one driver": func(l *fleettest.Fleet) {
			each(l, func(n *facts.Node) { n.NVML.Driver = evil })
			l.Nodes[1].NVML.Driver = "550.54.15"
		},
		"a driver without libraries": func(l *fleettest.Fleet) {
			l.Nodes[1].GPU.Module, l.Nodes[1].NVML.Failure = evil, &facts.NVMLFailure{Kind: facts.FailureNoLibrary, Call: evil, Text: evil}
			l.Nodes[2].GPU.Module, l.Nodes[2].GPU.Libcuda = evil, nil
		},
		"a libcuda": func(l *fleettest.Fleet) {
			l.Nodes[1].GPU.Libcuda = []facts.DriverLibrary{{Path: evil + "/stubs/", Version: evil, From: evil}}
			l.Nodes[2].GPU.Libcuda[0].Version = "999." + evil
		},
		"a CUDA":                func(l *fleettest.Fleet) { l.Nodes[1].Python.Torch.CUDA = "99." + evil },
		"a model of GPU":        func(l *fleettest.Fleet) { l.Nodes[1].NVML.Cards[0].Name, l.Nodes[1].NVML.Cards[1].VBIOS = evil, evil },
		"a GPU that is lost":    func(l *fleettest.Fleet) { l.Nodes[1].GPU.OnBus[0].Address, l.Nodes[1].GPU.Devices[0] = evil, evil },
		"a device node":         func(l *fleettest.Fleet) { l.Nodes[1].GPU.Doors[0] = facts.DeviceNode{Path: evil, Problem: evil} },
		"a hostname under c10d": func(l *fleettest.Fleet) { l.Launch.Rendezvous = launch.RendezvousC10d; l.Nodes[0].Names.Own = evil },
		"an endpoint": func(l *fleettest.Fleet) {
			each(l, func(n *facts.Node) {
				n.Rendezvous = &facts.Rendezvous{Endpoint: evil + ":" + evil, Failed: facts.HopResolve, Serves: n.Name == "w1", Error: evil}
				n.PeerRendezvous = &facts.Rendezvous{Endpoint: evil + ":29500", Serves: n.Name == "w1"}
			})
		},
	} {
		fleet := fleettest.Healthy(3)
		change(&fleet)
		report := judged(fleet, Catalogue...)
		for _, f := range report.Findings {
			for _, fix := range f.Fix {
				lines.Add(name+": "+f.Check, fix)
			}
			for _, node := range f.Nodes {
				if strings.Contains(node, "pwned") {
					t.Errorf("%s: %s names %q for a node", name, f.Check, node)
				}
			}
		}
		if text := fmt.Sprint(report.Advice.Env, report.Advice.Args); strings.Contains(text, "pwned") {
			t.Errorf("%s: advised: %s", name, text)
		}
	}
	lines.Paste(t)
}

// TestOnlyNodesAreNamed checks which nodes a finding about a wrong answer names. Only callers
// report which machine answered. A single caller is named together with the node to which it
// connected.
func TestOnlyNodesAreNamed(t *testing.T) {
	for answered, named := range map[string]string{"w4": "w1 w4", "w9": "w1", "": "w1"} {
		for callers, want := range []string{1: "w1 w2", 2: named} {
			fleet := fleettest.Healthy(4)
			for i := 1; i <= callers; i++ {
				delete(fleet.Nodes[i].Mesh.Reached, "w1")
				fleet.Nodes[i].Mesh.Failed = []facts.Path{{Peer: "w1", To: "10.0.0.1", Port: 40000, Outcome: facts.PathMisdirected, Answered: answered}}
			}
			got := ""
			for _, f := range judged(fleet, network.NodeMesh).Findings {
				got += strings.Join(f.Nodes, " ")
			}
			if got != want {
				t.Errorf("%d say that %q answered: %q are named, want %q", callers, answered, got, want)
			}
		}
	}
}

// TestGPUFixesAreNoCommandsOfNodes makes a node send text that a shell would run, in every GPU fact
// that fixes print.
func TestGPUFixesAreNoCommandsOfNodes(t *testing.T) {
	const evil = "x$(touch${IFS}pwned)';touch pwned;'"
	fleet := fleettest.Healthy(3)
	node := &fleet.Nodes[1]
	memory := int64(70 << 30)
	node.NVML.Cards[0].Processes = []facts.GPUUser{{PID: 4711, Name: evil, User: evil, Kind: evil, Memory: &memory}}
	node.NVML.Cards[1].Fabric = &facts.GPUFabric{State: "completed", Status: evil, Cluster: evil}
	node.NVML.Cards[2].Failure = &facts.NVMLFailure{Kind: evil, Call: evil, Text: evil}
	node.NVML.Cards[3].Address, node.NVML.Cards[3].ComputeMode = evil, "prohibited"
	node.GPU.Xids = []facts.Xid{{Code: 154, Address: "0000:15:00", Text: "GPU recovery action changed from 0x0 (None) to " + evil}}
	node.NVML.Driver, node.GPU.Redirecting = evil, []string{evil}
	way := func(last string) []string { return []string{"pci0000:3a", "0000:3a:01.0", evil, last} }
	node.GPU.OnBus[0].Path, node.IB.Devices[0].Path = way(fleettest.GPUAddress(0)), []string{"pci0000:3a", "0000:3a:01.0", "0000:3c:00.0"}
	fixes := 0
	for _, f := range engine.Evaluate([]checks.Check{gpu.Healthy, gpu.Idle, gpu.Mode, gpu.Fabric, gpu.PeerAccess, gpu.Direct}, fleet.Fleet, fleet.Launch, checks.DefaultPolicy()).Findings {
		for _, fix := range f.Fix {
			fixes++
			if strings.Contains(fix, "pwned") {
				t.Errorf("%s: %s", f.Check, fix)
			}
		}
	}
	if fixes < 12 {
		t.Errorf("%d fixes: some trouble was not found", fixes)
	}
}
