// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// gpus returns cards with connections as in nvidia-smi topo -m. There is one row per GPU. All GPUs
// have peer access by default.
func gpus(rows ...string) *facts.NVML {
	nvml := &facts.NVML{Asked: true}
	for i, row := range rows {
		nvml.Cards = append(nvml.Cards, facts.Card{Index: i})
		nvml.Topology = append(nvml.Topology, strings.Fields(row))
		peers := strings.Fields(strings.Repeat("ok ", len(rows)))
		peers[i] = "X"
		nvml.Peers = append(nvml.Peers, peers)
	}
	return nvml
}

func refusePeers(nvml *facts.NVML, reason string) *facts.NVML {
	for i := range nvml.Peers {
		for j := range nvml.Peers[i] {
			if i != j {
				nvml.Peers[i][j] = reason
			}
		}
	}
	return nvml
}

// TestInside follows NVIDIA/nccl, ncclTopoCheckP2p, 2.12 to 2.30.7.
func TestInside(t *testing.T) {
	switched := func() *facts.NVML {
		return gpus("X NV18 NV18 NV18", "NV18 X NV18 NV18", "NV18 NV18 X NV18", "NV18 NV18 NV18 X")
	}
	bridged := func(far string) *facts.NVML {
		return gpus("X NV4 "+far+" "+far, "NV4 X "+far+" "+far, far+" "+far+" X NV4", far+" "+far+" NV4 X")
	}
	ring := gpus("X NV1 SYS NV2", "NV1 X NV1 SYS", "SYS NV1 X NV2", "NV2 SYS NV2 X")
	pair := func(far string) *facts.NVML { return gpus("X "+far, far+" X") }
	untold := pair("PIX")
	untold.Peers = nil
	linked := pair("NV4")
	linked.Peers = nil
	lost := pair("NV4")
	lost.Topology[1][0], lost.Topology[0][1] = "", ""
	oneWay, toldThere, toldBack := pair("PIX"), pair("PIX"), pair("PIX")
	oneWay.Peers[1][0], toldThere.Peers[1][0], toldBack.Peers[0][1] = "chipset-not-supported", "", ""
	mig := switched()
	mig.Cards[2].MIG = "enabled"
	for _, c := range []struct {
		name string
		nvml *facts.NVML
		env  []string
		nccl string
		cpu  string // model of the processor; "" means Intel
		want Transport
	}{
		{name: "switches", nvml: switched(), want: Transport{Name: "NVLink", Detail: "NV18 between all 4 GPUs"}},
		{name: "a pair", nvml: pair("NV4"), want: Transport{Name: "NVLink", Detail: "NV4 between both GPUs"}},
		{name: "islands", nvml: bridged("SYS"), want: Transport{Name: "NVLink", Detail: "NV4 within GPUs 0,1 and 2,3; shared memory between the others",
			Why: "they are SYS apart, and NCCL's default limit is PXB"}},
		{name: "islands on one switch", nvml: bridged("PXB"), want: Transport{Name: "NVLink", Detail: "NV4 within GPUs 0,1 and 2,3; PCIe between the others"}},
		{name: "a ring", nvml: ring, want: Transport{Name: "NVLink", Detail: "NV1 to NV2 between all 4 GPUs"}},
		{name: "a ring without detours", nvml: ring, env: []string{"NCCL_NVB_DISABLE=1"}, want: Transport{Name: "NVLink", Detail: "NV1 to NV2 between 4 of 6 pairs of GPUs; shared memory between the others",
			Why: "they are SYS apart, and NCCL's default limit is PXB"}},
		{name: "one switch", nvml: pair("PIX"), want: Transport{Name: "PCIe", Detail: "PIX between both GPUs"}},
		{name: "through the processor", nvml: pair("NODE"), want: Transport{Name: "shared memory", Detail: "between both GPUs",
			Why: "they are NODE apart, and NCCL's default limit is PXB"}},
		{name: "through AMD's processor", nvml: pair("SYS"), cpu: "AMD EPYC 9654", want: Transport{Name: "PCIe", Detail: "SYS between both GPUs"}},
		{name: "four through AMD's processor", nvml: bridged("SYS"), cpu: "AMD EPYC 9654", want: Transport{Name: "NVLink", Detail: "NV4 within GPUs 0,1 and 2,3; shared memory between the others",
			Why: "they are SYS apart, and NCCL's default limit is PXB"}},
		{name: "four through AMD's processor before 2.23", nvml: bridged("SYS"), cpu: "AMD EPYC 9654", nccl: "2.22.3", want: Transport{Name: "NVLink", Detail: "NV4 within GPUs 0,1 and 2,3; PCIe between the others"}},
		{name: "as far as one likes", nvml: pair("SYS"), env: []string{"NCCL_P2P_LEVEL=SYS"}, want: Transport{Name: "PCIe", Detail: "SYS between both GPUs"}},
		{name: "by the old number", nvml: pair("PHB"), env: []string{"NCCL_P2P_LEVEL=3"}, want: Transport{Name: "PCIe", Detail: "PHB between both GPUs"}},
		{name: "less far", nvml: pair("PXB"), env: []string{"NCCL_P2P_LEVEL=PIX"}, want: Transport{Name: "shared memory", Detail: "between both GPUs", Why: "NCCL_P2P_LEVEL=PIX from the ssh session's environment"}},
		{name: "a level that is none", nvml: pair("PXB"), env: []string{"NCCL_P2P_LEVEL=far"}, want: Transport{Name: "PCIe", Detail: "PXB between both GPUs"}},
		{name: "switched off", nvml: switched(), env: []string{"NCCL_P2P_DISABLE=1", "NCCL_P2P_LEVEL=SYS"}, want: Transport{Name: "shared memory", Detail: "between all 4 GPUs",
			Why: "NCCL_P2P_DISABLE=1 from the ssh session's environment"}},
		{name: "not switched off", nvml: pair("NV4"), env: []string{"NCCL_P2P_DISABLE=2"}, want: Transport{Name: "NVLink", Detail: "NV4 between both GPUs"}},
		{name: "and no shared memory", nvml: pair("SYS"), env: []string{"NCCL_SHM_DISABLE=1"}, want: Transport{Name: "the network", Detail: "between both GPUs",
			Why: "they are SYS apart, and NCCL's default limit is PXB; NCCL_SHM_DISABLE=1 from the ssh session's environment"}},
		{name: "no shared memory needed", nvml: pair("NV4"), env: []string{"NCCL_SHM_DISABLE=1"}, want: Transport{Name: "NVLink", Detail: "NV4 between both GPUs"}},
		{name: "no peers", nvml: refusePeers(pair("PIX"), "chipset-not-supported"), want: Transport{Name: "shared memory", Detail: "between both GPUs", Why: "the driver allows no peer access: chipset-not-supported"}},
		{name: "no peers one way", nvml: oneWay, want: Transport{Name: "shared memory", Detail: "between both GPUs", Why: "the driver allows no peer access: chipset-not-supported"}},
		{name: "peers not told", nvml: untold},
		{name: "peers told one way", nvml: toldThere, want: Transport{Name: "PCIe", Detail: "PIX between both GPUs"}},
		{name: "peers told the other way", nvml: toldBack, want: Transport{Name: "PCIe", Detail: "PIX between both GPUs"}},
		{name: "distances by a file", nvml: pair("PIX"), env: []string{"NCCL_TOPO_FILE=/opt/topo.xml"}},
		{name: "NVLink, whatever a file says", nvml: pair("NV4"), env: []string{"NCCL_TOPO_FILE=/opt/topo.xml"}, want: Transport{Name: "NVLink", Detail: "NV4 between both GPUs"}},
		{name: "NVLink, and peers not told", nvml: linked, want: Transport{Name: "NVLink", Detail: "NV4 between both GPUs"}},
		{name: "a GPU that tells nothing", nvml: lost},
		{name: "one GPU", nvml: gpus("X")},
		{name: "parts of GPUs", nvml: mig},
		{name: "a driver that fails", nvml: &facts.NVML{Failure: &facts.NVMLFailure{}, Cards: switched().Cards, Topology: switched().Topology, Peers: switched().Peers}},
		{name: "nothing seen"},
	} {
		node := rdmaNode(nil, c.nccl, c.env...)
		node.NVML, node.Host = c.nvml, &facts.Host{Arch: "x86_64", CPU: facts.CPU{Model: c.cpu}}
		if diff := cmp.Diff(c.want, NewTransports(launch.Prediction{Launcher: "pdsh"}, nil).Inside(node)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestInsideOfTheLaunch: only the GPUs that ranks use count.
func TestInsideOfTheLaunch(t *testing.T) {
	nvml := gpus("X NV4 SYS SYS", "NV4 X SYS SYS", "SYS SYS X SYS", "SYS SYS SYS X")
	for _, c := range []struct {
		name  string
		p     launch.Prediction
		slots int
		want  string
	}{
		{"two by the hostfile", launch.Prediction{Launcher: "pdsh", Hosts: []hostfile.Host{{Name: "w1", Slots: []int{0, 1}}}}, 2, "NV4 between both GPUs"},
		{"two by a filter", launch.Prediction{Launcher: "pdsh", Hosts: []hostfile.Host{{Name: "w1", Slots: []int{2, 3}}}}, 2, "between both GPUs"},
		{"two of torchrun's", launch.Prediction{Rendezvous: "c10d", Script: "train.py", PerNode: "2", Hosts: []hostfile.Host{{Name: "w1"}}}, 0, "NV4 between both GPUs"},
		{"one of torchrun's", launch.Prediction{Rendezvous: "c10d", Script: "train.py", Hosts: []hostfile.Host{{Name: "w1"}}}, 0, ""},
		{"more than there are", launch.Prediction{Launcher: "openmpi", Hosts: []hostfile.Host{{Name: "w1", Slots: []int{0, 1, 2, 3, 4, 5}}}}, 6, "NV4 within GPUs 0,1; shared memory between the others"},
		{"of a host that is not among them", launch.Prediction{Launcher: "pdsh", Hosts: []hostfile.Host{{Name: "w2", Slots: []int{0, 1}}}}, 2, "NV4 within GPUs 0,1; shared memory between the others"},
		{"on the processor", launch.Prediction{Launcher: "pdsh", Accelerator: "cpu"}, 4, ""},
	} {
		node := rdmaNode(nil, "")
		node.NVML, node.Slots = nvml, c.slots
		if got := NewTransports(c.p, nil).Inside(node).Detail; got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
