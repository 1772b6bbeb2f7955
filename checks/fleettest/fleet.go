// SPDX-License-Identifier: Apache-2.0

// Package fleettest has the healthy fleet that tests start from. Only tests import it.
package fleettest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
	"preflight/launch/dsconfig"
)

// Fleet is a fleet and the launch it is looked at for. Its JSON has the
// keys of a Report, so that other packages' tests can read it as one.
type Fleet struct {
	facts.Fleet
	Launch launch.Prediction `json:"launch"`
}

// Healthy is n like machines with eight GPUs and two InfiniBand ports
// each, on which every check passes.
func Healthy(n int) Fleet {
	fleet := Fleet{Launch: launch.Prediction{
		Launcher: "pdsh", MasterPort: 29500, Accelerator: "cuda", WorkDir: "/home/train/job",
		Interpreter: "/opt/conda/bin/python", InterpreterFrom: "/opt/conda/bin/deepspeed",
		Program: launch.ProgramDeepSpeed, Script: "train.py", Arguments: []string{"--deepspeed_config", "ds.json", "--data", "data", "--output_dir", "out", "--model", "org/model"}, DeepSpeed: "0.16.2",
		Imports: []string{"torch", "deepspeed"},
		// ds.json: ZeRO-Infinity, its optimizer on the nodes' own NVMe.
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
		facts.SectionRails:      "no node has an address of RoCE or InfiniBand that NCCL's data go by, nor several interfaces in NCCL_SOCKET_IFNAME",
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

// Address is where the i-th machine is, w1 first.
func Address(i int) string { return fmt.Sprintf("10.0.%d.%d", i/250, i%250+1) }

// Node is the i-th machine of a healthy fleet of these names.
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
				CXX: "/usr/bin/c++", CXXVersion: "11.4.0", Ninja: "/usr/bin/ninja", PythonH: true, LibAIO: true, Extensions: "/scratch/torch_extensions",
				Builds: healthyBuilds(),
			},

			Mesh:       healthyMesh(i, names),
			Rendezvous: healthyRendezvous(i),
			Logins:     healthyLogins(i, names),
		},
	}
}

func HealthyHost(i int) *facts.Host {
	load := 0.1
	return &facts.Host{
		Hostname: fmt.Sprintf("w%d", i+1), BootID: fmt.Sprintf("boot-%d", i), MachineID: fmt.Sprintf("machine-%d", i), NetNamespace: "net:[4026531840]",
		OS: "Ubuntu 22.04.4 LTS", Kernel: "5.15.0-107-generic", Arch: "x86_64", Libc: "glibc 2.35",
		CPU:  facts.CPU{Model: "Intel(R) Xeon(R) Platinum 8480C", Sockets: 2, Online: 224, Usable: 224},
		NUMA: []facts.NUMA{{ID: 0, CPUs: "0-55,112-167", Bytes: 512 << 30}, {ID: 1, CPUs: "56-111,168-223", Bytes: 512 << 30}},
		User: "train", Home: "/home/train", Shell: "/bin/bash", Uptime: 86400, Load: &load,
	}
}

// healthyNames resolves a few names only when the fleet is large, as a probe does.
func healthyNames(i int, names []string) *facts.Names {
	seen := &facts.Names{Own: names[i], FQDN: names[i] + ".cluster", Asked: len(names), Resolver: "files dns"}
	for j, name := range names {
		if len(names) <= 16 || j == 0 || j == i {
			seen.Lookups = append(seen.Lookups, facts.Lookup{Name: name, Addresses: []string{Address(j)}})
		}
	}
	return seen
}

func healthyNet(i int, names []string) *facts.Net {
	room := max(4096, 2*len(names)) // for everybody on the link
	speed := int64(100e9)
	seen := &facts.Net{
		Docker: &facts.Docker{},
		Interfaces: []facts.Interface{
			{Name: "lo", Index: 1, Up: true, Running: true, Loopback: true, MTU: 65536, Kind: "loopback", Addresses: []string{"127.0.0.1/8"}},
			{
				Name: "eth0", Index: 2, Up: true, Running: true, MTU: 9000, MAC: fmt.Sprintf("02:00:00:00:%02x:%02x", i/250, i%250+1),
				Kind: "physical", Driver: "mlx5_core", Speed: &speed, Addresses: []string{Address(i) + "/16"},
			},
		},
		EphemeralLow: 32768, EphemeralHigh: 60999, SoMaxConn: 4096,
		Listening: []facts.Listener{{Address: "0.0.0.0", Port: 22, PID: 800, Command: "sshd"}},
		TCP:       map[string]string{"net.ipv4.tcp_syn_retries": "6"},
		Neighbours: []facts.NeighbourTable{
			{Name: "arp_cache", GCThresh1: room, GCThresh2: 2 * room, GCThresh3: 4 * room, Entries: 12, Learned: map[string]int{"eth0": 12}, Overflows: new(int64(0))},
			{Name: "ndisc_cache", GCThresh1: 128, GCThresh2: 512, GCThresh3: 1024, Entries: 3, Learned: map[string]int{"eth0": 3}, Overflows: new(int64(0))},
		},
		Counters: map[string]int64{"eth0 carrier_changes": 2},
	}
	for j, name := range names {
		if len(names) <= 16 || j == 0 {
			route := facts.Route{Name: name, To: Address(j), Interface: "eth0", Source: Address(i)}
			if j == i {
				route.Interface = "lo"
			}
			seen.Routes = append(seen.Routes, route)
		}
	}
	return seen
}

func healthyDisk() *facts.Disk {
	place := func(role, path, fsType, source string, total, free, inodes int64) facts.Place {
		return facts.Place{Role: role, Path: path, Exists: true, Writable: true, FSType: fsType, Source: source, Total: total, Free: free, FreeInodes: inodes}
	}
	ofHome := func(role, path string) facts.Place {
		return place(role, path, "nfs4", "filer:/home", 100<<40, 40<<40, 1<<30)
	}
	ofNode := func(role, path, source string) facts.Place {
		return place(role, path, "ext4", source, 1<<40, 600<<30, 1<<26)
	}
	return &facts.Disk{Places: []facts.Place{
		ofHome("workdir", "/home/train/job"), ofHome("home", "/home/train"), ofHome("hf-cache", "/home/train/.cache/huggingface"),
		ofNode("triton-cache", "/scratch/triton", "/dev/nvme0n1p3"), ofNode("torch-extensions", "/scratch/torch_extensions", "/dev/nvme0n1p3"),
		place("offload-optimizer", "/local_nvme", "xfs", "/dev/nvme1n1", 7<<40, 6<<40, 1<<28),
		ofNode("tmp", "/tmp", "/dev/nvme0n1p2"), ofNode("var-tmp", "/var/tmp", "/dev/nvme0n1p2"), ofHome("output", "/home/train/job/out"),
	}}
}

func healthyBuilds() []facts.Place {
	var builds []facts.Place
	for _, op := range []string{"cpu_adam", "async_io"} {
		builds = append(builds, facts.Place{
			Role: op, Path: "/scratch/torch_extensions/py311_cu124/" + op, Writable: true,
			FSType: "ext4", Source: "/dev/nvme0n1p3", Total: 1 << 40, Free: 600 << 30, FreeInodes: 1 << 26,
		})
	}
	return builds
}

func healthyEnv() *facts.Env {
	return &facts.Env{
		Vars: []facts.Setting{{Name: "NCCL_DEBUG", Value: "WARN", Source: "environment"}},
		NCCL: []facts.Setting{{Name: "NCCL_DEBUG", Value: "WARN", Source: "environment"}},
	}
}

func healthyPython() *facts.Python {
	site := "/opt/conda/lib/python3.11/site-packages"
	return &facts.Python{
		Path: "/opt/conda/bin/python", Found: true, Executable: "/opt/conda/bin/python", Version: "3.11.9", Prefix: "/opt/conda",
		MetadataOnly: []string{}, Unfound: []string{},

		SysPath: []string{"/home/train/job", "/opt/conda/lib/python311.zip", "/opt/conda/lib/python3.11", site},
		Packages: map[string]string{
			"torch": "2.5.1+cu124", "deepspeed": "0.16.2", "protobuf": "4.25.3", "transformers": "4.47.1", "accelerate": "1.2.1",
			"numpy": "1.26.4", "mpi4py": "4.0.1", "triton": "3.1.0", "nvidia-nccl-cu12": "2.21.5",
			"hjson": "3.1.0", "packaging": "24.2", "psutil": "6.1.1", "py-cpuinfo": "9.0.0", "pydantic": "2.10.4", "tqdm": "4.67.1", "msgpack": "1.1.0", "einops": "0.8.0",
		},
		Torch: &facts.Torch{Version: "2.5.1+cu124", CUDA: "12.4", NCCLWheel: "2.21.5"},
		NCCL: []facts.NCCLLibrary{{
			Path: site + "/nvidia/nccl/lib/libnccl.so.2", Version: "2.21.5", CUDA: "12.4", From: "wheel",
			Code: []string{"sm_50", "sm_60", "sm_61", "sm_70", "sm_80", "sm_90", "compute_90"},
		}},
		Protobuf: &facts.Protobuf{Runtime: "4.25.3"},
	}
}

// healthyIB is two ConnectX-7, one beside GPU 0 and one beside GPU 4.
func healthyIB(i int) *facts.IB {
	seen := &facts.IB{
		Verbs: []string{"/dev/infiniband/uverbs0", "/dev/infiniband/uverbs1"}, Peermem: true,
		Libraries: []facts.RDMALibrary{
			{Name: "libibverbs.so.1", Path: "/usr/lib/x86_64-linux-gnu/libibverbs.so.1"}, {Name: "libmlx5.so.1", Path: "/usr/lib/x86_64-linux-gnu/libmlx5.so.1"},
		},
	}
	for port := range 2 {
		bus := 0x0e + 4*port
		seen.Devices = append(seen.Devices, facts.HCA{
			Name: fmt.Sprintf("mlx5_%d", port), Type: "MT4129", Firmware: "28.39.1002", Board: "MT_0000000838",
			GUID: fmt.Sprintf("0c42:a103:%04x:%04x", i, port), NUMANode: port, Kind: "CA", Driver: "mlx5_core", Verbs: seen.Verbs[port],
			Path: []string{fmt.Sprintf("pci0000:%02x", bus), fmt.Sprintf("0000:%02x:01.0", bus), fmt.Sprintf("0000:%02x:00.0", bus+0x20)},
			PCIe: "32.0 GT/s PCIe x16", MaxPCIe: "32.0 GT/s PCIe x16",
			Ports: []facts.IBPort{{
				Port: 1, State: "ACTIVE", Physical: "LinkUp", LinkLayer: "InfiniBand", Rate: 400e9, Width: "4X",
				LID: 2*i + port + 1, SMLID: 1, PKeys: []string{"0xffff"},
				GIDs: []facts.GID{{Index: 0, GID: fmt.Sprintf("fe80:0000:0000:0000:0c42:a103:%04x:%04x", i, port), Type: "IB/RoCE v1"}},
			}},
		})
	}
	return seen
}

// healthyFiles are those of a launch of train.py with ds.json.
func healthyFiles() *facts.Files {
	const dir = "/home/train/job"
	file := func(name, role, digest string) facts.File {
		return facts.File{LaunchFile: facts.LaunchFile{Path: dir + "/" + name, Role: role}, Exists: true, Kind: "file", Size: 2048, Digest: strings.Repeat(digest, 8)}
	}
	clean := 0
	return &facts.Files{
		WorkDir: facts.WorkDir{Path: dir, Exists: true},
		Files:   []facts.File{file("train.py", facts.RoleScript, "7ea1c0de"), file("ds.json", facts.RoleConfig, "c0f1d5ee"), file("data", facts.RoleArgument, "da7aba5e")},
		Sources: &facts.Sources{
			Root: dir, Digest: strings.Repeat("50c5", 16), Count: 3,
			Files: map[string]string{"train.py": "7ea1c0de7ea1", "model.py": "30de130de130", "data/loader.py": "10ade210ade2"},
		},
		Models: []facts.Model{{
			ModelNamed: facts.ModelNamed{Name: "org/model", Revision: "main"},
			Cache:      "/home/train/.cache/huggingface/hub", Commit: strings.Repeat("ab12c0de", 5), Files: "f11e5f11e5f1",
		}},
		Repository: &facts.Repository{Root: dir, Commit: strings.Repeat("5d6e7f80", 5), Branch: "main", Dirty: &clean},
	}
}

// healthyMesh is full up to 128 nodes. Above, each calls the next in the ring
// and six others, here in strides that no fleet of a test is a multiple of.
func healthyMesh(i int, names []string) *facts.Mesh {
	seen := &facts.Mesh{Interface: "eth0", Address: Address(i), Ports: []int{35007, 44111, 58123}, Reached: map[string]float64{names[i]: 0.0001}, MSS: 8948, Counters: map[string]int64{"eth0 carrier_changes": 2}}
	if len(names) <= 128 {
		for _, name := range names {
			seen.Reached[name] = 0.0002
		}
		return seen
	}
	for _, stride := range []int{1, 7, 31, 67, 109, 127, 173} {
		seen.Reached[names[(i+stride)%len(names)]] = 0.0002
	}
	return seen
}

func healthyRendezvous(i int) *facts.Rendezvous {
	seen := &facts.Rendezvous{
		Endpoint: Address(0) + ":29500", Generation: facts.GenerationPings, Addresses: []string{Address(0)}, Address: Address(0), Interface: "eth0",
		Joined: 0.002, Complete: 0.03,
	}
	if i == 0 {
		seen.Serves, seen.ServesWhy, seen.Interface = true, "node 0 serves", "lo"
	}
	return seen
}

// healthyLogins are to all others of a small fleet, else to the next in the
// ring and to one more.
func healthyLogins(i int, names []string) *facts.Logins {
	if len(names) <= 8 {
		return &facts.Logins{Passed: slices.Delete(slices.Clone(names), i, i+1)}
	}
	return &facts.Logins{Passed: []string{names[(i+1)%len(names)], names[(i+7)%len(names)]}}
}

// healthyRehearsal has every node answer pdsh under its own rank.
func healthyRehearsal(names []string) *facts.Rehearsal {
	seen := &facts.Rehearsal{
		Command: []string{"/usr/bin/pdsh", "-S", "-f", "1024", "-w", strings.Join(names, ","), "echo", "preflight-k3x-%n"}, Seconds: 0.4,
	}
	for rank, name := range names {
		seen.Nodes = append(seen.Nodes, facts.RehearsalNode{Node: name, Ranks: []int{rank}})
	}
	return seen
}

// Says is a check that returns the same findings whatever it sees.
func Says(id string, findings ...checks.Finding) checks.Check {
	return checks.Check{
		ID: id, Severity: checks.Error, Needs: []facts.Section{facts.SectionSHM}, WouldSee: "boom on {node}",
		Run: func(checks.View) []checks.Finding { return findings },
	}
}

// Spelled is a line for each field of a finding, and for each command and note of its fix.
func Spelled(findings []checks.Finding) string {
	var text strings.Builder
	for _, f := range findings {
		text.WriteString(Line(strings.TrimSpace(string(f.Verdict)+" "+strings.Join(f.Nodes, ", ")), f.Summary))
		text.WriteString(Line("  got", f.Got))
		text.WriteString(Line("  want", f.Want))
		for _, command := range f.Fix {
			text.WriteString(Line("  fix", command))
		}
		for _, note := range f.Notes {
			text.WriteString(Line("  note", note))
		}
		text.WriteString(Line("  would_see", f.WouldSee))
	}
	return text.String()
}

// Line is a field that is not empty. What an editor would break is in quotes.
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

// SetCard gives a node another interface beside eth0, before or after it.
func SetCard(node *facts.Node, index int, name, prefix string) {
	added := facts.Interface{Name: name, Index: index, Up: true, Running: true, Kind: "physical", Addresses: []string{prefix}}
	node.Net.Interfaces = append(node.Net.Interfaces, added)
}

// healthyGPU is eight H100 behind four NVSwitches.
func healthyGPU() *facts.GPU {
	seen := &facts.GPU{
		NVSwitches: 4, SwitchDoors: []string{}, Module: "550.54.15", OpenModule: true, Modules: []string{"nvidia", "nvidia_peermem", "nvidia_uvm"},
		Doors:         []facts.DeviceNode{{Path: "/dev/nvidia-uvm"}, {Path: "/dev/nvidiactl"}},
		Libcuda:       []facts.DriverLibrary{{Path: "/usr/lib/x86_64-linux-gnu/libcuda.so.1", Version: "550.54.15", From: "ld.so.cache"}},
		FabricManager: &facts.FabricManager{Installed: true, Version: "550.54.15", State: "active", Running: true},
		IMEX:          &facts.IMEX{Channels: []facts.DeviceNode{}, PeersUnread: "there is no /etc/nvidia-imex/nodes_config.cfg"},
		IOMMU:         "passthrough", Redirecting: []string{}, Xids: []facts.Xid{}, SXids: []facts.Xid{},
	}
	for i := range 8 {
		device := fmt.Sprintf("/dev/nvidia%d", i)
		seen.Devices, seen.Doors = append(seen.Devices, device), append(seen.Doors, facts.DeviceNode{Path: device})
		seen.Driver = append(seen.Driver, GPUAddress(i))
		seen.OnBus = append(seen.OnBus, facts.PCIGPU{
			Address: GPUAddress(i), Device: "0x2330", Driver: "nvidia", NUMANode: i / 4,
			Path: []string{fmt.Sprintf("pci0000:%02x", 0x0e+i), fmt.Sprintf("0000:%02x:01.0", 0x0e+i), GPUAddress(i)},
		})
	}
	return seen
}

func GPUAddress(i int) string { return fmt.Sprintf("0000:%02x:00.0", 0x10+i) }

func healthyNVML(node int) *facts.NVML {
	seen := &facts.NVML{Source: "nvml", Asked: true, Driver: "550.54.15", Library: "12.550.54.15", CUDA: "12.4"}
	for i := range 8 {
		seen.Cards = append(seen.Cards, healthyCard(node, i))
		links, peers := slices.Repeat([]string{"NV18"}, 8), slices.Repeat([]string{"ok"}, 8)
		links[i], peers[i] = "X", "X"
		seen.Topology, seen.Peers = append(seen.Topology, links), append(seen.Peers, peers)
	}
	return seen
}

func healthyCard(node, i int) facts.Card {
	none, minor, numa, used, celsius, slowdown, persistence := int64(0), i, i/4, int64(1<<20), 34, 87, true
	return facts.Card{
		Index: i, UUID: fmt.Sprintf("GPU-%08x-0000-0000-0000-%012x", node, i), Name: "NVIDIA H100 80GB HBM3", Serial: fmt.Sprintf("16%05d%05d", node, i),
		VBIOS: "96.00.89.00.01", Capability: "9.0", Address: GPUAddress(i), Minor: &minor, NUMANode: &numa, CPUs: "0-55,112-167",
		Memory: 80 << 30, MemoryUsed: &used,
		Link:        facts.PCILink{Generation: 5, MaxGeneration: 5, Width: 16, MaxWidth: 16, Replays: &none},
		Clock:       facts.GPUClock{SM: 345, MaxSM: 1980, Memory: 2619, MaxMemory: 2619},
		Power:       facts.GPUPower{Draw: 70, Limit: 700, Default: 700, Max: 700},
		Temperature: &celsius, SlowdownAt: &slowdown, Throttle: []string{"gpu-idle"},
		Persistence: &persistence, ComputeMode: "default", MIG: "disabled", MIGPending: "disabled",
		ECC:       &facts.ECC{Enabled: true, Corrected: &none, Uncorrected: &none, AggregateCorrected: &none, AggregateUncorrected: &none, SRAMExceeded: new(false)},
		Remapped:  &facts.Remapped{},
		Processes: []facts.GPUUser{},
		NVLinks:   &facts.NVLinks{Count: 18, Speed: 212_500_000_000, RemoteKind: "switch", Counted: true},
		Fabric:    &facts.GPUFabric{State: "completed", Health: "healthy"},
	}
}
