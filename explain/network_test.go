// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// network returns the networks of several logs in one text. Each log begins with a line "== NODE",
// with the node of the log's file.
func network(logs string) []Network {
	n := newNetworks()
	file := ""
	for line := range strings.Lines(logs) {
		line = strings.TrimRight(line, "\n")
		if name, heading := strings.CutPrefix(line, "== "); heading {
			file = name
			continue
		}
		n.take(file, []byte(line))
	}
	return n.summary()
}

func TestNetwork(t *testing.T) {
	for _, test := range []struct {
		name, logs string
		want       []Network
	}{
		{"InfiniBand, NCCL 2.21", `
w1:101:101 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>
w1:101:101 [0] NCCL INFO cudaDriverVersion 12040
NCCL version 2.21.5+cuda12.4
w1:101:140 [0] NCCL INFO NET/Plugin: No plugin found. Using internal implementation.
w1:101:140 [0] NCCL INFO NCCL_IB_HCA set to mlx5_0,mlx5_1
w1:101:140 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>
w1:101:140 [0] NCCL INFO Using non-device net plugin version 0
w1:101:140 [0] NCCL INFO Using network IB
w1:101:140 [0] NCCL INFO ncclCommInitRank comm 0x55d0 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x1f - Init START
w1:101:140 [0] NCCL INFO NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'
w1:101:140 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 1 'mlx5_1'
w1:101:140 [0] NCCL INFO NCCL_CROSS_NIC set by environment to 1.
w1:101:140 [0] NCCL INFO NVLS multicast support is available on dev 0
w1:101:140 [0] NCCL INFO comm 0x55d0 rank 0 nRanks 4 nNodes 2 localRanks 2 localRank 0 MNNVL 0
w1:101:140 [0] NCCL INFO Channel 00/02 :    0   1   2   3
w1:101:140 [0] NCCL INFO Channel 00/0 : 3[1] -> 0[0] [receive] via NET/IB/0/GDRDMA
w1:101:140 [0] NCCL INFO Channel 01/0 : 0[0] -> 2[0] [send] via NET/IB/1(1)/GDRDMA/Shared
w1:101:140 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
w1:102:141 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM
w1:101:140 [0] NCCL INFO Connected NVLS tree
w1:101:140 [0] NCCL INFO TUNER/Plugin: Using tuner plugin acme
w1:101:140 [0] NCCL INFO ncclCommInitRank comm 0x55d0 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x1f - Init COMPLETE
`, []Network{{
			Node: "w1", NCCL: "2.21.5", Nodes: 2, Bootstrap: &Interface{"eth0", "10.0.0.1"}, Net: "IB",
			HCAs:        []HCA{{"mlx5_0:1", "RoCE", "enabled"}, {"mlx5_1:1", "RoCE", "disabled"}},
			Connections: []string{"NET/IB/GDRDMA", "P2P/CUMEM"},
			Variables:   map[string]string{"NCCL_IB_HCA": "mlx5_0,mlx5_1", "NCCL_CROSS_NIC": "1"},
			Slow:        []string{"GPUDirect RDMA is disabled on mlx5_1:1, whose data goes through host memory: load the module nvidia_peermem, or use a kernel with DMA-BUF"},
		}}},
		{"NCCL 2.4 says no network", `
w1:7:9 [0] NCCL INFO NET/Socket : Using [0]ens3:10.0.0.1<0> [1]ib0:fe80::1%ib0<0>
w1:7:9 [0] NCCL INFO NET/IB : No device found.
w1:7:9 [0] NCCL INFO Ring 00 : 1 -> 0 [receive] via NET/Socket/0
w1:7:9 [0] NCCL INFO Ring 00 : 0[0] -> 1[1] via direct shared memory
w1:7:9 [0] NCCL INFO comm 0x7f rank 0 nranks 2 cudaDev 0 nvmlDev 0 - Init COMPLETE
`, []Network{{
			Node: "w1", Net: "Socket", NoHCA: true, Interfaces: []Interface{{"ens3", "10.0.0.1"}, {"ib0", "fe80::1%ib0"}},
			Connections: []string{"NET/Socket", "SHM"},
			Slow:        []string{"some GPUs of the node reach each other only through host memory (SHM): no NVLink connects them, and they are on different PCIe roots or P2P is disabled"},
		}}},
		{"NCCL 2.30 and joined ports of 2.22", `
[2026-03-01 10:00:00] w1:7:9 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1:2:1/IB [RO]; OOB eth0:10.0.0.1<0>
w2:7:9 [0] NCCL INFO NET/IB : Using [0]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE} [1]mlx5_2:1/IB/SHARP ; OOB eth0:10.0.0.2<0>
`, []Network{
			{Node: "w1", Net: "IB", HCAs: []HCA{{Name: "mlx5_0:1:2:1", Link: "IB"}}},
			{Node: "w2", Net: "IB", HCAs: []HCA{{Name: "mlx5_0:1", Link: "RoCE"}, {Name: "mlx5_1:1", Link: "RoCE"}, {Name: "mlx5_2:1", Link: "IB/SHARP"}}},
		}},
		{"a plugin whose name has a blank", `
algo-1:70:95 [0] NCCL INFO NET/OFI Selected Provider is efa (found 4 nics)
algo-1:70:95 [0] NCCL INFO Using network AWS Libfabric
algo-1:70:95 [0] NCCL INFO NET/AWS Libfabric : GPU Direct RDMA Enabled for HCA 0 'rdmap16s27-rdm'
algo-1:70:95 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/AWS Libfabric/3/GDRDMA(PCI)
`, []Network{{
			Node: "algo-1", Net: "AWS Libfabric", Provider: "efa", HCAs: []HCA{{Name: "rdmap16s27-rdm", GDR: "enabled"}},
			Connections: []string{"NET/AWS Libfabric/GDRDMA"},
		}}},
		{"Ray repeats no line", `
(RayTrainWorker pid=954, ip=10.67.132.202) worker-p5:954:3133 [6] NCCL INFO NET/IB : No device found. [repeated 15x across cluster]
(RayTrainWorker pid=954, ip=10.67.132.202) worker-p5:954:3133 [6] NCCL INFO NET/Socket : Using [0]eth0:10.67.132.202<0> [repeated 15x across cluster]
(RayTrainWorker pid=954, ip=10.67.132.202) worker-p5:954:3133 [6] NCCL INFO Using network Socket [repeated 15x across cluster]
`, []Network{{Node: "worker-p5", Net: "Socket", NoHCA: true, Interfaces: []Interface{{"eth0", "10.67.132.202"}}}}},
		{"rank 0 of each file tells the version", `
== w1
NCCL version 2.18.3+cuda12.1
node1:7:9 [0] NCCL INFO Using network IB
== w2
NCCL version 2.18.3+cuda12.1
node2:7:9 [0] NCCL INFO Using network IB
== w3
NCCL version 2.18.3+cuda12.1
`, []Network{
			{Node: "node1", Net: "IB", NCCL: "2.18.3"},
			{Node: "node2", Net: "IB", NCCL: "2.18.3"},
			{Node: "w3", NCCL: "2.18.3"},
		}},
		{"nothing of NCCL", `
step 100 | loss 2.31 | NCCL is fine
RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1201, unhandled system error, NCCL version 21.0.3
w1:7:9 [0] NCCL WARN Call to connect failed
w1:7:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/w2:8:8 [1] NCCL INFO Using network IB
`, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, network(test.logs)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNetworkSlow checks that the summary reports settings that cost speed, with the reason. It
// must report nothing for a job on one node, which needs no network.
func TestNetworkSlow(t *testing.T) {
	two := func(lines string) string { // the same lines on two nodes
		text := ""
		for _, node := range []string{"w1", "w2"} {
			for line := range strings.Lines(lines) {
				text += node + ":7:9 [0] NCCL INFO " + line
			}
			text += "\n"
		}
		return text
	}
	for _, test := range []struct{ name, logs, slow string }{
		{"IB disabled", two("NCCL_IB_DISABLE set by environment to 1.\nUsing network Socket\n"), "NCCL_IB_DISABLE=1 turns off"},
		{"IB not disabled", two("NCCL_IB_DISABLE set by environment to 0.\nNET/IB : No device found.\nUsing network Socket\n"), ""},
		{"sockets asked for", two("NCCL_NET set by environment to Socket\nUsing network Socket\n"), "NCCL_NET=Socket"},
		{"devices left alone", two("NET/IB : Using [0]mlx5_0:1/IB ; OOB eth0:10.0.0.1<0>\nUsing network Socket\n"), "lists mlx5_0:1 but does not use it"},
		{"no device by that name", two("NCCL_IB_HCA set to mlx5_9\nNET/IB : No device found.\nUsing network Socket\n"), "matches NCCL_IB_HCA=mlx5_9"},
		{"one node alone", "w1:7:9 [0] NCCL INFO NET/IB : No device found.\nw1:7:9 [0] NCCL INFO Using network Socket\n", ""},
		{"a node unlike the others", two("Using network IB\n") + "w3:7:9 [0] NCCL INFO NET/IB : No device found.\nw3:7:9 [0] NCCL INFO Using network Socket\n", "uses network Socket, but other nodes use IB"},
		{"two that differ", "w1:7:9 [0] NCCL INFO Using network IB\nw2:7:9 [0] NCCL INFO Using network IBext_v8\n", "uses network IB, but other nodes use IBext_v8"},
		{"two versions", "== w1\nNCCL version 2.18.3+cuda12.1\n== w2\nNCCL version 2.19.3+cuda12.1\n", "uses NCCL 2.18.3, but other nodes use 2.19.3"},
		{"docker's bridge", two("Bootstrap : Using docker0:172.17.0.1<0>\nUsing network IB\n"), "NCCL uses docker0 172.17.0.1"},
		{"loopback among others", two("NET/Socket : Using [0]eth0:10.0.0.1<0> [1]lo:127.0.0.1<0>\nUsing network Socket\n"), "NCCL uses lo 127.0.0.1"},
		{"P2P off", two("NCCL_P2P_LEVEL set by environment to LOC\n"), "NCCL_P2P_DISABLE=1 or NCCL_P2P_LEVEL=LOC"},
		{"P2P off, 2.28", two("NCCL_P2P_DISABLE set by environment to 1\n"), "NCCL_P2P_DISABLE=1 or"},
		{"P2P refused", two("P2P is disabled between connected GPUs 0 and 1. You can repress this message with NCCL_IGNORE_DISABLED_P2P=1.\nCould not enable P2P between dev 2(=3d000) and dev 3(=3e000)\n"), "the driver refuses P2P"},
		{"SHM", two("Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n"), "through host memory (SHM)"},
		{"SHM off", two("NCCL_SHM_DISABLE set by environment to 1.\n"), "NCCL_SHM_DISABLE=1"},
		{"one node by network", "w1:7:9 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0\nw1:7:9 [0] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [receive] via NET/Socket/0\n", "GPUs of one node reach each other over"},
		{"no peermem", two("NET/IB : Using [0]mlx5_0:1/IB ; OOB eth0:10.0.0.1<0>\nNET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0' (no module)\nChannel 00 : 1[1000] -> 0[1000] [receive] via NET/IB/0\n"), "GPUDirect RDMA is disabled on mlx5_0:1"},
		{"received through the host", two("Channel 00 : 1[1000] -> 0[1000] [receive] via NET/IB/0\n"), "no connection over the network uses GPUDirect"},
		{"sent through the host", two("Channel 00 : 1[1000] -> 0[1000] [send] via NET/IB/0\n"), ""},
		{"some through the host", two("Channel 00 : 1[1000] -> 0[1000] [send] via NET/IB/0\nChannel 00 : 1[1000] -> 0[1000] [receive] via NET/IB/0/GDRDMA\n"), ""},
		{"libfabric over TCP", two("NET/OFI Selected provider is tcp, fabric is 10.0.0.0/24 (found 1 nics)\nUsing network Libfabric\n"), "provider is tcp"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var slow []string
			for _, n := range network(test.logs) {
				slow = append(slow, n.Slow...)
			}
			if got := strings.Join(slow, "\n"); (test.slow == "") != (got == "") || !strings.Contains(got, test.slow) {
				t.Errorf("got %q, want %q", got, test.slow)
			}
		})
	}
}

// TestNetworkNode checks that the node is found whatever text is before NCCL's own prefix.
func TestNetworkNode(t *testing.T) {
	const message = "NCCL INFO Using network IB"
	for _, test := range []struct{ file, before, node string }{
		{"", "w1:101:140 [0] ", "w1"},
		{"f", "w1:101:140 [0] ", "w1"},
		{"", "w1:101:140 [-1] ", "w1"},
		{"", "gpu-1.rack:101:140 ", "gpu-1.rack"}, // "NCCL CALL" lines have this form, without a device
		{"", "[2026-03-01 10:00:00] w1:101:140 [7] ", "w1"},
		{"", "10.0.0.1: w1:101:140 [7] ", "w1"},
		{"", "[default0]:w1:101:140 [7] ", "w1"},
		{"", "[trainer3]:w1:101:140 [7] ", "w1"},
		{"", "[rank3]:w1:101:140 [7] ", "w1"},
		{"", "[1,3]<stdout>:w1:101:140 [7] ", "w1"},
		{"", " 12: w1:101:140 [7] ", "w1"},
		{"", "(RayTrainWorker pid=12, ip=10.0.0.1) w1:101:140 [7] ", "w1"},
		{"", "trainer-1  | 2026-03-01T10:00:00.5Z w1:101:140 [7] ", "w1"},
		{"f", "[0] ", "f"},
		{"f", "", "f"},
		{"f", ":101:140 [0] ", "f"},
	} {
		got := network("== " + test.file + "\n" + test.before + message + "\n")
		if len(got) != 1 || got[0].Node != test.node || got[0].Net != "IB" {
			t.Errorf("%q: %+v", test.before, got)
		}
	}
}

// TestNetworkBounds checks that a hostile log cannot fill the memory.
func TestNetworkBounds(t *testing.T) {
	n := newNetworks()
	for i := range 3 * mostNetworks {
		for _, message := range []string{
			"NCCL_%d set by environment to %s", "Channel 00 : 0[0] -> 1[1] [send] via NET/x%d%s/0", "Using network n%d%s", "NET/Socket : Using [0]e%d:%s<0>",
			"NET/IB : GPU Direct RDMA Enabled for HCA 0 'm%d%s'", "Could not enable P2P between dev %d and dev 1%s",
		} {
			for _, node := range []string{"w0", fmt.Sprintf("w%d", i)} {
				n.take("", fmt.Appendf(nil, "%s:1:1 [0] NCCL INFO "+message, node, i, strings.Repeat("\xff", 300)))
			}
		}
	}
	all := n.summary()
	if len(all) != mostNetworks {
		t.Errorf("%d nodes", len(all))
	}
	for _, w := range all {
		if len(w.Variables) > mostVariables || len(w.Connections) > mostKinds || len(w.HCAs) > mostDevices || len(w.Interfaces) > mostDevices {
			t.Errorf("too much of %s", w.Node)
		}
		if text := fmt.Sprint(w); strings.ToValidUTF8(text, "") != text {
			t.Errorf("%q", text)
		}
	}
}

func TestNetworkString(t *testing.T) {
	got := Network{NCCL: "2.21.5", Net: "IB", HCAs: []HCA{{Name: "mlx5_0:1"}, {Name: "mlx5_7:1"}},
		Bootstrap: &Interface{"eth0", "10.0.0.1"}, Connections: []string{"NET/IB/GDRDMA", "P2P/CUMEM"}}.String()
	const want = "NCCL 2.21.5; network IB on mlx5_0:1, mlx5_7:1; connections over NET/IB/GDRDMA, P2P/CUMEM; bootstrap on eth0"
	if got != want {
		t.Errorf("got %q", got)
	}
}

func BenchmarkNetwork(b *testing.B) {
	for _, line := range []string{
		"[2026-03-01 10:00:00,123] [INFO] step=100, skipped=0, lr=[0.0001], mom=[(0.9, 0.95)], loss 2.3141 throughput 1234",
		"10.0.0.1: w1:101:140 [7] NCCL INFO Channel 12/0 : 15[7] -> 0[0] [receive] via NET/IB/3/GDRDMA",
		"10.0.0.1: w1:101:140 [7] NCCL INFO === System : maxBw 48.0 totalBw 480.0 ===",
	} {
		b.Run(line[20:40], func(b *testing.B) {
			n := newNetworks()
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				n.take("", []byte(line))
			}
		})
	}
}
