// SPDX-License-Identifier: Apache-2.0

package gpus

import (
	"fmt"
	"slices"
)

// H100s returns a machine with n (at most 8) H100 SXM cards and four NVSwitches, as in a DGX H100.
// The PCI addresses are those of a DGX H100.
func H100s(n int) Machine {
	buses := []int{0x1b, 0x43, 0x52, 0x61, 0x9d, 0xc3, 0xd1, 0xdf}
	machine := Machine{
		Driver: "550.54.15", CUDA: "12.4", Module: "550.54.15", OpenModule: true,
		NVSwitches: 4, FabricManager: "550.54.15", FabricManagerRuns: true,
	}
	for i := range n {
		card := healthy(Card{
			Name: "NVIDIA H100 80GB HBM3", Device: 0x2330, Capability: "9.0", VBIOS: "96.00.89.00.01",
			Memory: 81559 * miB, MemoryReserved: 551 * miB,
			Link:  Link{Generation: 5, MaxGeneration: 5, Width: 16, MaxWidth: 16},
			Clock: Clock{SM: 345, MaxSM: 1980, Memory: 2619, MaxMemory: 2619},
			Power: Power{Draw: 70, Limit: 700, Default: 700, Min: 200, Max: 700}, SlowAt: 87,
			MIG: "disabled", MIGPending: "disabled",
			Path: ownRootPort(buses[i]),
		}, i, 8)
		card.NVLinks = toSwitches(machine.NVSwitches, 18, 26562)
		card.Fabric = &Fabric{State: 3, Cluster: "00000000-0000-0000-0000-000000000000", Health: fabricHealthy}
		machine.Cards = append(machine.Cards, card)
	}
	return machine
}

// A100s returns a machine with n (at most 8) A100 SXM cards and six NVSwitches, as in a DGX A100.
// Two cards share a PCIe switch.
func A100s(n int) Machine {
	buses := []int{0x07, 0x0f, 0x47, 0x4e, 0x87, 0x90, 0xb7, 0xbd}
	machine := Machine{
		Driver: "535.161.08", CUDA: "12.2", Module: "535.161.08",
		NVSwitches: 6, FabricManager: "535.161.08", FabricManagerRuns: true,
	}
	for i := range n {
		card := healthy(a100(Card{
			Name: "NVIDIA A100-SXM4-80GB", Device: 0x20b2, VBIOS: "92.00.9E.00.01",
			Power: Power{Draw: 62, Limit: 400, Default: 400, Min: 100, Max: 400},
			Path:  switchPort(buses[i&^1]-4, buses[i], i%2),
		}), i, 8)
		card.NVLinks = toSwitches(machine.NVSwitches, 12, 25000)
		machine.Cards = append(machine.Cards, card)
	}
	return machine
}

// A100PCIes returns a machine with n (at most 8) A100 cards that are connected only by PCIe.
func A100PCIes(n int) Machine {
	machine := Machine{Driver: "535.161.08", CUDA: "12.2", Module: "535.161.08"}
	for i := range n {
		machine.Cards = append(machine.Cards, healthy(a100(Card{
			Name: "NVIDIA A100 80GB PCIe", Device: 0x20b5, VBIOS: "92.00.90.00.04",
			Power: Power{Draw: 44, Limit: 300, Default: 300, Min: 150, Max: 300},
			Path:  switchPort(0x20*(i/2)+0x11, 0x20*(i/2)+0x14+i%2, i%2),
		}), i, 8))
	}
	return machine
}

func a100(card Card) Card {
	card.Capability = "8.0"
	card.Memory, card.MemoryReserved = 81920*miB, 637*miB
	card.Link = Link{Generation: 4, MaxGeneration: 4, Width: 16, MaxWidth: 16}
	card.Clock = Clock{SM: 210, MaxSM: 1410, Memory: 1512, MaxMemory: 1512}
	card.SlowAt, card.MIG, card.MIGPending = 89, "disabled", "disabled"
	return card
}

// L4s returns a machine with n (at most 8) L4 cards. An L4 is a small card without NVLink and MIG.
func L4s(n int) Machine {
	machine := Machine{Driver: "550.54.15", CUDA: "12.4", Module: "550.54.15", OpenModule: true}
	for i := range n {
		machine.Cards = append(machine.Cards, healthy(Card{
			Name: "NVIDIA L4", Device: 0x27b8, Capability: "8.9", VBIOS: "95.04.65.00.04",
			Memory: 23034 * miB, MemoryReserved: 434 * miB,
			Link:  Link{Generation: 1, MaxGeneration: 4, Width: 16, MaxWidth: 16},
			Clock: Clock{SM: 210, MaxSM: 2040, Memory: 405, MaxMemory: 6251},
			Power: Power{Draw: 12, Limit: 72, Default: 72, Min: 40, Max: 72}, SlowAt: 92,
			Path: ownRootPort(0x31 + 0x10*i),
		}, i, 2))
	}
	return machine
}

// GB200s returns one tray of an NVL72 rack, with n (at most 4) GB200 GPUs. The NVSwitches are in
// other trays, so the machine does not show them. The whole rack is one fabric.
func GB200s(n int) Machine {
	machine := Machine{Driver: "570.124.06", CUDA: "12.8", Module: "570.124.06", OpenModule: true}
	for i := range n {
		root := fmt.Sprintf("%04x", []int{0x8, 0x9, 0x18, 0x19}[i])
		card := healthy(Card{
			Name: "NVIDIA GB200", Device: 0x2941, Capability: "10.0", VBIOS: "97.00.88.00.0F",
			Memory: 189471 * miB, MemoryReserved: 673 * miB,
			Link:  Link{Generation: 5, MaxGeneration: 5, Width: 16, MaxWidth: 16},
			Clock: Clock{SM: 120, MaxSM: 2062, Memory: 3996, MaxMemory: 3996},
			Power: Power{Draw: 155, Limit: 1200, Default: 1200, Min: 200, Max: 1200}, SlowAt: 87,
			MIG: "disabled", MIGPending: "disabled", Recovery: "none",
			Path: []string{"pci" + root + ":00", root + ":00:00.0", root + ":01:00.0"},
		}, i, 4)
		card.CPUs = []string{"0-71", "72-143"}[card.NUMA]
		card.NVLinks = slices.Repeat([]NVLink{{Speed: 53125, Kind: "switch"}}, 18)
		card.Fabric = &Fabric{State: 3, Cluster: "9c6f5af3-53bf-49b5-a436-b66766c413c3", Clique: 4026, Health: fabricHealthy}
		machine.Cards = append(machine.Cards, card)
	}
	return machine
}

// V100s returns a machine with n (at most 8) V100 SXM cards that are linked with each other. Its
// driver is from 2020, and the driver's library lacks all newer functions.
func V100s(n int) Machine {
	machine := Machine{Driver: "450.80.02", CUDA: "11.0", Module: "450.80.02", Without: slices.Clone(since450)}
	for i := range n {
		card := healthy(Card{
			Name: "Tesla V100-SXM2-32GB", Device: 0x1db5, Capability: "7.0", VBIOS: "88.00.80.00.01",
			Memory: 32510 * miB,
			Link:   Link{Generation: 3, MaxGeneration: 3, Width: 16, MaxWidth: 16},
			Clock:  Clock{SM: 135, MaxSM: 1530, Memory: 877, MaxMemory: 877},
			Power:  Power{Draw: 42, Limit: 300, Default: 300, Min: 150, Max: 300}, SlowAt: 87,
			Path: ownRootPort(0x05 + 0x10*i),
		}, i, 8)
		card.Remapped, card.Retired = nil, &Retired{}
		machine.Cards = append(machine.Cards, card)
	}
	linkNeighbours(machine.Cards, 25781)
	return machine
}

// since450 lists the functions that appeared after driver 450, according to the change log in
// nvml.h and the symbols of that driver's library. Driver 450 reports processes with functions that
// have no version in their names.
var since450 = []string{
	"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetGraphicsRunningProcesses_v3",
	"nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetCurrentClocksEventReasons",
	"nvmlDeviceGetNvLinkRemoteDeviceType", "nvmlDeviceGetGpuFabricInfo", "nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetNumaNodeId",
}

// RTX4090s returns a machine with n (at most 8) consumer cards, which have no error correction, no
// NVLink, and no access to each other's memory.
func RTX4090s(n int) Machine {
	machine := Machine{Driver: "550.54.15", CUDA: "12.4", Module: "550.54.15"}
	for i := range n {
		card := healthy(Card{
			Name: "NVIDIA GeForce RTX 4090", Device: 0x2684, Capability: "8.9", VBIOS: "95.02.3C.00.8C",
			Memory: 24564 * miB, MemoryReserved: 347 * miB,
			Link:  Link{Generation: 1, MaxGeneration: 4, Width: 16, MaxWidth: 16},
			Clock: Clock{SM: 210, MaxSM: 3105, Memory: 405, MaxMemory: 10501},
			Power: Power{Draw: 21, Limit: 450, Default: 450, Min: 10, Max: 600}, SlowAt: 99,
			Path: ownRootPort(0x21 + 0x10*i),
		}, i, 4)
		card.Serial, card.ECC, card.Remapped, card.Persistence = "", nil, nil, false
		card.Apart = map[int]int{}
		for j := range n {
			if j != i {
				card.Apart[j] = 1
			}
		}
		machine.Cards = append(machine.Cards, card)
	}
	return machine
}

const miB = 1 << 20

// fabricHealthy is the health mask of a fabric without degradation and with the right
// configuration: 2 means no, and 1 means none (nvml.h, NVML_GPU_FABRIC_HEALTH_MASK_…).
const fabricHealthy = 2 | 2<<2 | 2<<4 | 2<<6 | 1<<8

// healthy sets the fields of a card that all healthy cards share. The card is idle, unused and
// intact. i is the index of the card in a machine with slots for `of` cards, half of them at each
// socket.
func healthy(card Card, i, of int) Card {
	card.UUID = fmt.Sprintf("GPU-%08x-5f2c-4b1e-9d30-%012x", 0x51c0ffee+i, i)
	card.Serial = fmt.Sprintf("165052300%04d", i)
	card.NUMA = min(i/(of/2), 1)
	card.CPUs = []string{"0-55,112-167", "56-111,168-223"}[card.NUMA]
	card.MemoryUsed, card.Celsius = 1*miB, 31+i
	card.Throttle, card.Persistence, card.ComputeMode = []string{"gpu-idle"}, true, "default"
	card.ECC, card.Remapped = &ECC{Enabled: true, Pending: true}, &Remapped{}
	return card
}

// ownRootPort returns the PCI path of a card with its own host bridge.
func ownRootPort(bus int) []string {
	return []string{fmt.Sprintf("pci0000:%02x", bus-1), fmt.Sprintf("0000:%02x:01.0", bus-1), fmt.Sprintf("0000:%02x:00.0", bus)}
}

// switchPort returns the PCI path of a card at the given port of a PCIe switch. upstream is the bus
// of the switch's upstream port.
func switchPort(upstream, bus, port int) []string {
	return []string{
		fmt.Sprintf("pci0000:%02x", upstream-1), fmt.Sprintf("0000:%02x:01.1", upstream-1), fmt.Sprintf("0000:%02x:00.0", upstream),
		fmt.Sprintf("0000:%02x:%02x.0", upstream+1, 4*port), fmt.Sprintf("0000:%02x:00.0", bus),
	}
}

// toSwitches returns count links, distributed evenly over the NVSwitches.
func toSwitches(switches, count, speed int) []NVLink {
	links := make([]NVLink, count)
	for i := range links {
		links[i] = NVLink{Speed: speed, Kind: "switch", Remote: switchAddress(i % switches)}
	}
	return links
}

func switchAddress(i int) string { return fmt.Sprintf("0000:%02x:00.0", 0xf5+i) }

// linkNeighbours gives each card one link to each of the six nearest other cards in a ring, three
// on each side.
func linkNeighbours(cards []Card, speed int) {
	for i := range cards {
		for _, step := range []int{1, 2, 3} {
			for _, j := range []int{i + step, i - step} {
				if peer := (j + len(cards)) % len(cards); peer != i && len(cards) > 2*step {
					cards[i].NVLinks = append(cards[i].NVLinks, NVLink{Speed: speed, Kind: "gpu", Remote: cards[peer].Address()})
				}
			}
		}
	}
}
