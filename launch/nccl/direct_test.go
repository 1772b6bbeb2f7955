// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/launch"
)

func TestGPUDirect(t *testing.T) {
	const kernel = "5.15.0-107-generic"
	open, closed := &facts.GPU{Module: "550.54.15", OpenModule: true}, &facts.GPU{Module: "550.54.15"}
	lacks := func(what string) GPUDirect {
		return GPUDirect{Why: "nvidia_peermem is not loaded, and for DMA-BUF: " + what}
	}
	for _, c := range []struct {
		name    string
		peermem bool
		gpu     *facts.GPU
		kernel  string
		cuda    string
		nccl    string
		env     []string
		want    GPUDirect
	}{
		{"a module", true, nil, kernel, "12.4", "", nil, GPUDirect{By: "nvidia_peermem"}},
		{"shared buffers", false, open, kernel, "12.4", "2.21.5", nil, GPUDirect{By: "DMA-BUF"}},
		{"the closed module", false, closed, kernel, "12.4", "2.21.5", nil, lacks("the driver's kernel module is not the open-source one")},
		{"an old kernel", false, open, "5.4.0-150-generic", "12.4", "", nil, lacks("Linux 5.4.0-150-generic")},
		{"an old kernel of Red Hat's", false, open, "4.18.0-553.el8_10.x86_64", "12.4", "", nil, GPUDirect{}},
		{"an old driver", false, open, kernel, "11.6", "", nil, lacks("the driver's CUDA 11.6")},
		{"an old NCCL", false, open, kernel, "12.4", "2.12.12", nil, lacks("NCCL 2.12.12")},
		{"switched off", false, open, kernel, "12.4", "", []string{"NCCL_DMABUF_ENABLE=0"}, lacks("NCCL_DMABUF_ENABLE=0")},
		{"not seen", false, nil, kernel, "12.4", "", nil, GPUDirect{}},
	} {
		ib := ibOf("mlx5_0:1/I ACTIVE 0000:18:00.0")
		ib.Peermem = c.peermem
		node := rdmaNode(ib, c.nccl, c.env...)
		node.GPU, node.NVML, node.Host = c.gpu, &facts.NVML{CUDA: c.cuda}, &facts.Host{Kernel: c.kernel}
		if diff := cmp.Diff(c.want, NetworkOf(launch.Prediction{}, node).GPUDirect(node)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestGPUDirectByDistance: GPUDirect needs only one GPU near one adapter.
func TestGPUDirectByDistance(t *testing.T) {
	const own = " from the ssh session's environment"
	for _, c := range []struct {
		name string
		gpus []string // PCI roots of GPUs; all GPUs are on another NUMA node than the adapter on pci0000:00
		env  []string
		card string
		want GPUDirect
	}{
		{"one bridge", []string{"pci0000:00"}, nil, "NVIDIA H100", GPUDirect{Why: "GPUs and adapters are PHB apart at best: NCCL's default limit is PXB"}},
		{"two, the nearer first", []string{"pci0000:00", "pci0000:80"}, nil, "NVIDIA H100", GPUDirect{Why: "GPUs and adapters are PHB apart at best: NCCL's default limit is PXB"}},
		{"farther", []string{"pci0000:80"}, nil, "NVIDIA H100", GPUDirect{Why: "GPUs and adapters are SYS apart at best: NCCL's default limit is PXB"}},
		{"as far as one likes", []string{"pci0000:80"}, []string{"NCCL_NET_GDR_LEVEL=SYS"}, "NVIDIA H100", GPUDirect{By: "nvidia_peermem"}},
		{"less far", []string{"0000:01:01.0"}, []string{"NCCL_NET_GDR_LEVEL=LOC"}, "NVIDIA H100", GPUDirect{Why: "GPUs and adapters are PIX apart at best: NCCL_NET_GDR_LEVEL=LOC" + own}},
		{"one switch", []string{"pci0000:80", "0000:01:01.0"}, nil, "NVIDIA H100", GPUDirect{By: "nvidia_peermem"}},
		{"for games", []string{"0000:01:01.0"}, nil, "NVIDIA GeForce RTX 4090", GPUDirect{Why: "NVIDIA GeForce RTX 4090 does not take it"}},
		{"of DGX Spark", []string{"0000:01:01.0"}, nil, "NVIDIA GB10", GPUDirect{Why: "NVIDIA GB10 does not take it"}},
		{"not on the bus", []string{""}, nil, "NVIDIA H100", GPUDirect{}},
		{"not on the bus, as far as one likes", []string{""}, []string{"NCCL_NET_GDR_LEVEL=SYS"}, "NVIDIA H100", GPUDirect{By: "nvidia_peermem"}},
		{"one far, one not on the bus", []string{"pci0000:80", ""}, nil, "NVIDIA H100", GPUDirect{}},
		{"one near, one not on the bus", []string{"", "0000:01:01.0"}, nil, "NVIDIA H100", GPUDirect{By: "nvidia_peermem"}},
		{"by a file", []string{"pci0000:80"}, []string{"NCCL_TOPO_FILE=/opt/ndv4-topo.xml"}, "NVIDIA H100", GPUDirect{}},
		{"by a file, for games", []string{"pci0000:80"}, []string{"NCCL_TOPO_FILE=/opt/ndv4-topo.xml"}, "NVIDIA TITAN V", GPUDirect{Why: "NVIDIA TITAN V does not take it"}},
	} {
		ib := ibOf("mlx5_0:1/I ACTIVE 0000:18:00.0")
		ib.Peermem, ib.Devices[0].Path = true, []string{"pci0000:00", "0000:01:01.0", "0000:18:00.0"}
		node := rdmaNode(ib, "", c.env...)
		node.NVML, node.GPU = &facts.NVML{}, &facts.GPU{}
		for i, under := range c.gpus {
			address := string(rune('a'+i)) + ":00.0"
			node.NVML.Cards = append(node.NVML.Cards, facts.Card{Name: c.card, Address: address})
			path := []string{under, "0000:02:01.0", address}
			if under == "0000:01:01.0" {
				path = []string{"pci0000:00", under, address}
			}
			if under != "" {
				node.GPU.OnBus = append(node.GPU.OnBus, facts.PCIGPU{Address: address, NUMANode: 1, Path: path})
			}
		}
		if diff := cmp.Diff(c.want, NetworkOf(launch.Prediction{}, node).GPUDirect(node)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestGPUDirectByC2C: GPUs on NVLink-C2C reach the adapters of their processor over that link,
// depending on NCCL's version and settings.
func TestGPUDirectByC2C(t *testing.T) {
	far := func(why string) GPUDirect { return GPUDirect{Why: "GPUs and adapters are " + why} }
	const byItself = "NODE apart at best: NCCL's default limit is PXB"
	for _, c := range []struct {
		nccl, card string
		numa       int // NUMA node of the adapter
		env        []string
		want       GPUDirect
	}{
		{"", "NVIDIA GB200", 0, nil, GPUDirect{By: "nvidia_peermem"}},
		{"2.27.3", "NVIDIA GH200 480GB", 0, nil, GPUDirect{By: "nvidia_peermem"}},
		{"2.26.2", "NVIDIA GH200 480GB", 0, nil, far(byItself)},
		{"2.26.2", "NVIDIA GH200 480GB", 0, []string{"NCCL_NET_GDR_C2C=1"}, GPUDirect{By: "nvidia_peermem"}},
		{"2.25.1", "NVIDIA GH200 480GB", 0, []string{"NCCL_NET_GDR_C2C=1"}, far(byItself)},
		{"", "NVIDIA GB300", 0, []string{"NCCL_NET_GDR_C2C=0"}, far(byItself)},
		{"", "NVIDIA GB300", 0, nil, GPUDirect{By: "nvidia_peermem"}},
		{"", "NVIDIA GB200", 1, nil, far("SYS apart at best: NCCL's default limit is PXB")},
		{"", "NVIDIA H200", 0, nil, far(byItself)},
		{"2.28.9", "NVIDIA GB200", 0, []string{"NCCL_NET_GDR_LEVEL=PIX"}, GPUDirect{By: "nvidia_peermem"}},
		{"2.29.2", "NVIDIA GB200", 0, []string{"NCCL_NET_GDR_LEVEL=PIX"}, far("P2C apart at best: NCCL_NET_GDR_LEVEL=PIX from the ssh session's environment")},
	} {
		ib := ibOf("mlx5_0:1/I ACTIVE 0002:01:00.0")
		ib.Peermem, ib.Devices[0].NUMANode, ib.Devices[0].Path = true, c.numa, []string{"pci0002:00", "0002:01:00.0"}
		node := rdmaNode(ib, c.nccl, c.env...)
		node.GPU = &facts.GPU{OnBus: []facts.PCIGPU{{Address: "0008:01:00.0", Path: []string{"pci0008:00", "0008:01:00.0"}}}}
		node.NVML = &facts.NVML{Cards: []facts.Card{{Name: c.card, Address: "0008:01:00.0"}}}
		if diff := cmp.Diff(c.want, NetworkOf(launch.Prediction{}, node).GPUDirect(node)); diff != "" {
			t.Errorf("%s, NCCL %s, %v (-want +got):\n%s", c.card, c.nccl, c.env, diff)
		}
	}
}

// TestGPUDirectOfAMD: for AMD's GPUs the result is unknown.
func TestGPUDirectOfAMD(t *testing.T) {
	node := &facts.Node{Facts: facts.Facts{IB: &facts.IB{Peermem: true}, NVML: &facts.NVML{Source: facts.SourceAMD, Cards: []facts.Card{{Name: "AMD Instinct MI300X OAM"}}}}}
	if got := (Network{}).GPUDirect(node); got != (GPUDirect{}) {
		t.Errorf("%+v", got)
	}
}
