package catalogue

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"preflight/checks/fleettest"
	"preflight/checks/network"
	"preflight/facts"
	"preflight/launch"
)

// TestWhatANodeSendsIsNoCommand has nodes send text that a shell would run, and
// looks for it in every fix where one of the two shells would run it.
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
				if strings.Contains(fix, "pwned") {
					runTwice(t, name+": "+f.Check, fix)
				}
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
}

// runTwice runs a fix as it would be pasted, with an ssh that hands what it was
// given to another shell and no other program in reach but touch.
func runTwice(t *testing.T, name, fix string) {
	t.Helper()
	dir := t.TempDir()
	stubs := `PATH=/nowhere; touch() { echo > "` + dir + `/$1"; }; sudo() { "$@"; }; deepspeed() { :; }; torchrun() { :; }; sed() { :; }; kill() { :; }
ssh() { shift; eval "$*"; }; pdsh() { shift 4; eval "$*"; }; `
	command := exec.CommandContext(t.Context(), "bash", "-c", stubs+"eval \"$FIX\"")
	command.Dir, command.Env = dir, []string{"FIX=" + fix, "HOME=" + dir}
	command.Run() // what it lacks does not matter
	if met, _ := filepath.Glob(dir + "/pwned*"); met != nil {
		t.Errorf("%s: a node runs a command where this is pasted: %s", name, fix)
	}
}

// TestOnlyNodesAreNamed: who answered is what the caller says.
func TestOnlyNodesAreNamed(t *testing.T) {
	for answered, want := range map[string]int{"w3": 2, "w9": 1, "": 1} {
		fleet := fleettest.Healthy(3)
		delete(fleet.Nodes[1].Mesh.Reached, "w1")
		fleet.Nodes[1].Mesh.Failed = []facts.Path{{Peer: "w1", To: "10.0.0.1", Port: 40000, Outcome: facts.PathMisdirected, Answered: answered}}
		report := judged(fleet, network.NodeMesh)
		if len(report.Findings) != 1 || len(report.Findings[0].Nodes) != want {
			t.Errorf("answered by %q: %+v, want %d nodes", answered, report.Findings, want)
		}
	}
}
