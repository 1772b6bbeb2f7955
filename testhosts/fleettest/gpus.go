// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"fmt"
	"slices"

	"preflight/facts"
)

// healthyGPU returns eight H100 GPUs with four NVSwitches.
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
