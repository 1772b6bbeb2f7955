// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"fmt"
	"slices"
	"strings"

	"preflight/facts"
)

func HealthyHost(i int) *facts.Host {
	load := 0.1
	return &facts.Host{
		Hostname: fmt.Sprintf("w%d", i+1), BootID: fmt.Sprintf("boot-%d", i), MachineID: fmt.Sprintf("machine-%d", i), NetNamespace: "net:[4026531840]",
		OS: "Ubuntu 22.04.4 LTS", Kernel: "5.15.0-107-generic", Arch: "x86_64", Libc: "glibc 2.35",
		CPU:  facts.CPU{Model: "Intel(R) Xeon(R) Platinum 8480C", Sockets: 2, Online: 224, Usable: 224},
		NUMA: []facts.NUMA{{ID: 0, CPUs: "0-55,112-167", Bytes: 512 << 30}, {ID: 1, CPUs: "56-111,168-223", Bytes: 512 << 30}},
		User: "train", Home: "/home/train", Shell: "/bin/bash", Tools: []string{"firewall-cmd", "iptables", "nft", "rsync", "ufw"}, Uptime: 86400, Load: &load,
	}
}

// healthyNames resolves only a few names if the fleet is large, as a probe does.
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
	room := max(4096, 2*len(names)) // room for all machines of the network segment
	speed := int64(100e9)
	seen := &facts.Net{
		Docker: &facts.Docker{},
		Rules:  []string{},
		Interfaces: []facts.Interface{
			{Name: "lo", Index: 1, Up: true, Running: true, Loopback: true, MTU: 65536, Kind: "loopback", Addresses: []string{"127.0.0.1/8"}},
			{
				Name: "eth0", Index: 2, Up: true, Running: true, MTU: 9000, MAC: fmt.Sprintf("02:00:00:00:%02x:%02x", i/250, i%250+1),
				Kind: "physical", Driver: "mlx5_core", Speed: &speed, Addresses: []string{Address(i) + "/16"},
			},
		},
		Default:      &facts.Route{To: "8.8.8.8", Interface: "eth0", Source: Address(i), Gateway: "10.0.255.254"},
		EphemeralLow: 32768, EphemeralHigh: 60999, SoMaxConn: max(4096, 8*len(names)), // room for all ranks
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

		Topology: []facts.TopologyFile{},
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

// healthyIB returns two ConnectX-7 adapters, one near GPU 0 and one near GPU 4.
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

// healthyFiles returns the files of a launch of train.py with ds.json.
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

// healthyMesh returns connections between all nodes. In a fleet of more than 128 nodes, each node
// connects to the next node and to six others. No test's fleet size is a multiple of the distances
// to these nodes.
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

// healthyLogins returns logins to all other nodes of a small fleet. In a larger fleet it returns
// logins to the next node and one more node.
func healthyLogins(i int, names []string) *facts.Logins {
	if len(names) <= 8 {
		return &facts.Logins{Passed: slices.Delete(slices.Clone(names), i, i+1)}
	}
	return &facts.Logins{Passed: []string{names[(i+1)%len(names)], names[(i+7)%len(names)]}}
}

// healthyRehearsal returns an answer to pdsh from every node, with its own rank.
func healthyRehearsal(names []string) *facts.Rehearsal {
	seen := &facts.Rehearsal{
		Command: []string{"/usr/bin/pdsh", "-S", "-f", "1024", "-w", strings.Join(names, ","), "echo", "preflight-k3x-%n"}, Seconds: 0.4,
	}
	for rank, name := range names {
		seen.Nodes = append(seen.Nodes, facts.RehearsalNode{Node: name, Ranks: []int{rank}})
	}
	return seen
}

// healthyShared returns a node that sees the files of all others in the launch's output directory.
func healthyShared(i int, names []string) *facts.Shared {
	dir := facts.SharedDirectory{Path: "/home/train/job/out", At: "/home/train/job/out", Seconds: 0.01}
	for at := 1; at < len(names) && at <= 8; at++ {
		held := map[string]string{facts.LockFlock: facts.LockHeld, facts.LockFcntl: facts.LockHeld}
		dir.Peers = append(dir.Peers, facts.SharedPeer{Peer: names[(i+at)%len(names)], Locks: held})
	}
	return &facts.Shared{Directories: []facts.SharedDirectory{dir}}
}
