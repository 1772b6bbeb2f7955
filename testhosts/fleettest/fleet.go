// SPDX-License-Identifier: Apache-2.0

// Package fleettest contains the healthy fleet that tests start from. Only tests import it.
package fleettest

import (
	"fmt"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
	"preflight/launch/dsconfig"
)

// Fleet is a fleet together with its launch. Its JSON has the keys of a Report, so tests of other
// packages can read it as a Report.
type Fleet struct {
	facts.Fleet
	Launch launch.Prediction `json:"launch"`
}

// Healthy returns n machines with eight GPUs and two InfiniBand ports, on which all checks pass.
func Healthy(n int) Fleet {
	fleet := Fleet{Launch: launch.Prediction{
		Launcher: "pdsh", MasterPort: 29500, Accelerator: "cuda", WorkDir: "/home/train/job",
		Interpreter: "/opt/conda/bin/python", InterpreterFrom: "/opt/conda/bin/deepspeed",
		Program: launch.ProgramDeepSpeed, Script: "train.py", Arguments: []string{"--deepspeed_config", "ds.json", "--data", "data", "--output_dir", "out", "--model", "org/model"}, DeepSpeed: "0.16.2",
		Imports: []string{"torch", "deepspeed"},
		// ds.json: ZeRO-Infinity, with the optimizer state on the NVMe of each node.
		Config: &dsconfig.Config{
			Path: "/home/train/job/ds.json", ZeroStage: 3, Ops: []string{"cpu_adam", "async_io"},
			Offload: []dsconfig.Offload{{What: "optimizer", Device: "nvme", Path: "/local_nvme"}},
		},
	}}
	fleet.Launch.Places = []facts.LaunchFile{{Path: "/home/train/job/out", Role: facts.RoleOutput}}
	fleet.Launch.Models = []facts.ModelNamed{healthyFiles().Models[0].ModelNamed}
	for _, file := range healthyFiles().Files {
		fleet.Launch.Files = append(fleet.Launch.Files, file.LaunchFile)
	}
	fleet.NotTried = map[facts.Section]string{
		facts.SectionThroughput: "not asked for: --throughput measures it",
		facts.SectionSmoke:      "only with --smoke",
		facts.SectionRehearsed:  "only with --rehearse",
		facts.SectionKernelLog:  "only with --only oom-kill",
		facts.SectionRails:      "no node has an address of RoCE or InfiniBand that NCCL's data go by, nor several interfaces in NCCL_SOCKET_IFNAME",
		facts.SectionHub:        "no node has to fetch from the Hub what the launch names",
		facts.SectionCallBack:   "pdsh starts ranks over its own ssh connections: no node calls the launching machine",
	}
	names, slots := make([]string, n), []int{0, 1, 2, 3, 4, 5, 6, 7}
	for i := range n {
		names[i] = fmt.Sprintf("w%d", i+1)
		fleet.Launch.Hosts = append(fleet.Launch.Hosts, hostfile.Host{Name: names[i], Slots: slots, Line: i + 1})
	}
	for i := range n {
		fleet.Nodes = append(fleet.Nodes, Node(i, names))
	}
	fleet.Head = &facts.Node{
		Name: "launching machine", Reached: true,
		Facts: facts.Facts{
			Host: HealthyHost(n), Net: healthyNet(n, nil), Env: healthyEnv(), Files: healthyFiles(),
			Launcher: &facts.Launcher{
				SSHPath: "/usr/bin/ssh", SSHVersion: "OpenSSH_9.2p1",
				PDSH:     &facts.PDSH{Path: "/usr/bin/pdsh", Version: "2.34", Modules: []string{"ssh", "exec", "rsh"}, ModuleDir: "/usr/lib/x86_64-linux-gnu/pdsh"},
				Backends: map[string]string{}, DeepSpeed: "/opt/conda/bin/deepspeed", Interpreter: "/opt/conda/bin/python",
			},
			Names: &facts.Names{Own: "login", FQDN: "login.cluster", Resolver: "files dns"}, Rehearsal: healthyRehearsal(names),
		},
	}
	return fleet
}

// Address returns the address of machine i; w1 is the first.
func Address(i int) string { return fmt.Sprintf("10.0.%d.%d", i/250, i%250+1) }

// Node returns machine i of a healthy fleet. names are the names of all machines.
func Node(i int, names []string) facts.Node {
	return facts.Node{
		Name: names[i], Address: Address(i), Slots: 8, Reached: true,
		Facts: facts.Facts{
			SSH:   &facts.SSH{User: "train", Port: 22, Banner: "SSH-2.0-OpenSSH_9.2p1", ConnectSeconds: 0.02, StartSeconds: 0.01, Path: "/home/train/.cache/preflight/preflight-1"},
			Host:  HealthyHost(i),
			Clock: &facts.Clock{Offset: 0.003, Uncertainty: 0.001},
			Names: healthyNames(i, names),
			Net:   healthyNet(i, names),
			SHM: &facts.SHM{
				Exists: true, Mounted: true, FSType: "tmpfs", Options: "rw,nosuid,nodev", Mode: "1777",
				Size: 512 << 30, Free: 512 << 30, FreeInodes: 1 << 27, Writable: true,
				ShmMax: 1<<64 - 1<<24, ShmAll: 1<<64 - 1<<24, ShmMni: 4096, RemoveIPC: "no",
			},
			Limits: &facts.Limits{
				MemLock: facts.Limit{Soft: -1, Hard: -1}, LocksFreely: new(false),
				NoFile:  facts.Limit{Soft: 1 << 20, Hard: 1 << 20},
				NProc:   facts.Limit{Soft: 1 << 22, Hard: 1 << 22},
				Stack:   facts.Limit{Soft: 8 << 20, Hard: -1},
				Core:    facts.Limit{Soft: 0, Hard: -1},
				FileMax: 1<<63 - 1,
			},
			Memory: &facts.Memory{Total: 1 << 40, Available: 900 << 30, THP: "madvise"},
			Disk:   healthyDisk(),
			Env:    healthyEnv(),
			Python: healthyPython(),
			IB:     healthyIB(i),
			Files:  healthyFiles(),
			GPU:    healthyGPU(),
			NVML:   healthyNVML(i),
			Toolchain: &facts.Toolchain{
				CUDAHome: "/usr/local/cuda", CUDAFrom: "/usr/local/cuda", NVCC: "/usr/local/cuda/bin/nvcc", CUDA: "12.4",
				CXX: "/usr/bin/c++", CXXVersion: "11.4.0", Ninja: "/usr/bin/ninja", InductorCXX: "/usr/bin/g++", TritonCC: "/usr/bin/gcc", PythonH: true, Include: "/usr/include/python3.11", LibAIO: true, Extensions: "/scratch/torch_extensions",
				Builds: healthyBuilds(),
			},

			Mesh:       healthyMesh(i, names),
			Rendezvous: healthyRendezvous(i),
			Logins:     healthyLogins(i, names),
			Shared:     healthyShared(i, names),
		},
	}
}

// Says returns a check that always returns the given findings.
func Says(id string, findings ...checks.Finding) checks.Check {
	return checks.Check{
		ID: id, Severity: checks.Error, Needs: []facts.Section{facts.SectionSHM},
		Run: func(checks.View) []checks.Finding { return findings },
	}
}

// Spelled returns one line for each field of a finding, and for each command and note of its fix.
func Spelled(findings []checks.Finding) string {
	var text strings.Builder
	for _, f := range findings {
		text.WriteString(Line(strings.TrimSpace(string(f.Verdict)+" "+strings.Join(f.Nodes, ", ")), f.Summary))
		text.WriteString(Line("  got", f.Got))
		text.WriteString(Line("  want", f.Want))
		for i, command := range f.Fix {
			role := fix.Fix
			if i < len(f.Roles) {
				role = f.Roles[i]
			}
			text.WriteString(Line("  "+string(role), command))
		}
		for _, note := range f.Notes {
			text.WriteString(Line("  note", note))
		}
		text.WriteString(Line("  would_see", f.WouldSee))
	}
	return text.String()
}

// Line returns a line with label and value, or "" if the value is empty. It quotes values that an
// editor could change, such as those with trailing spaces.
func Line(label, value string) string {
	if value == "" {
		return ""
	}
	if value != strings.TrimSpace(value) || strings.ContainsAny(value, "\n\r") || value[0] == '"' {
		value = strconv.Quote(value)
	}
	return label + ": " + value + "\n"
}

func Rename(node *facts.Node, name string) {
	node.Net.Interfaces[1].Name, node.Mesh.Interface = name, name
}

// SetCard gives a node a second interface. index decides whether it comes before or after eth0.
func SetCard(node *facts.Node, index int, name, prefix string) {
	added := facts.Interface{Name: name, Index: index, Up: true, Running: true, Kind: "physical", Addresses: []string{prefix}}
	node.Net.Interfaces = append(node.Net.Interfaces, added)
}
