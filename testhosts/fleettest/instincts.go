// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"fmt"

	"preflight/facts"
)

// HealthyAMD returns n healthy machines with eight MI300X each, and with torch for ROCm.
func HealthyAMD(n int) Fleet {
	fleet := Healthy(n)
	for i := range fleet.Nodes {
		node := &fleet.Nodes[i]
		node.GPU, node.NVML = instinctGPU(), instinctCards(i)
		const site = "/opt/conda/lib/python3.11/site-packages"
		node.Python.Packages["torch"] = "2.5.1+rocm6.2"
		delete(node.Python.Packages, "nvidia-nccl-cu12")
		node.Python.Torch = &facts.Torch{Version: "2.5.1+rocm6.2", HIP: "6.2.41133-dd7f95766", CUDALibrary: site + "/torch/lib/libtorch_hip.so"}
		node.Python.NCCL = []facts.NCCLLibrary{{Path: site + "/torch/lib/librccl.so", Version: "2.20.5", HIP: "6.2", From: "torch"}}
	}
	return fleet
}

func instinctGPU() *facts.GPU {
	seen := &facts.GPU{Driver: []string{}, ROCm: "6.2.0-66", Doors: []facts.DeviceNode{{Path: "/dev/kfd"}}}
	for i := range 8 {
		device := fmt.Sprintf("/dev/dri/renderD%d", 128+8*i)
		seen.Devices, seen.Doors = append(seen.Devices, device), append(seen.Doors, facts.DeviceNode{Path: device})
		seen.Driver = append(seen.Driver, GPUAddress(i))
		seen.OnBus = append(seen.OnBus, facts.PCIGPU{
			Address: GPUAddress(i), Device: "0x74a1", Driver: "amdgpu", NUMANode: i / 4,
			Path: []string{fmt.Sprintf("pci0000:%02x", 0x0e+i), fmt.Sprintf("0000:%02x:01.0", 0x0e+i), GPUAddress(i)},
		})
	}
	return seen
}

func instinctCards(node int) *facts.NVML {
	seen := &facts.NVML{Source: facts.SourceAMD, Asked: true, Driver: "6.8.5"}
	for i := range 8 {
		card := facts.Card{
			Index: i, UUID: fmt.Sprintf("GPU-%08x%08x", node+1, i), Name: "AMD Instinct MI300X OAM", Serial: fmt.Sprintf("6923%04d%04d", node, i),
			VBIOS: "113-M3000100-102", Target: "gfx942", Firmware: map[string]string{"mec": "0x00000095", "sos": "0x003600b9", "smc": "0x00557700"},
			Address: GPUAddress(i), Minor: new(128 + 8*i), NUMANode: new(i / 4), CPUs: "0-55,112-167",
			Memory: 206141652992, MemoryUsed: new(int64(297 << 20)),
			Link:      facts.PCILink{Generation: 5, MaxGeneration: 5, Width: 16, MaxWidth: 16},
			ECC:       &facts.ECC{Enabled: true, Corrected: new(int64(0)), Uncorrected: new(int64(0))},
			Processes: []facts.GPUUser{},
			NVLinks:   &facts.NVLinks{Count: 7, Speed: 512_000_000_000, RemoteKind: "gpu"},
		}
		for j := range 8 {
			if j != i {
				card.NVLinks.Remotes = append(card.NVLinks.Remotes, GPUAddress(j))
			}
		}
		seen.Cards = append(seen.Cards, card)
	}
	return seen
}
