// SPDX-License-Identifier: Apache-2.0

package gpus

// Scenario is a machine with a name. GPUs returns a new Machine at every call.
type Scenario struct {
	Name, Does string
	GPUs       func() Machine
}

// h100s returns a function that returns eight H100 cards modified by change.
func h100s(change func(*Machine)) func() Machine {
	return func() Machine {
		machine := H100s(8)
		change(&machine)
		return machine
	}
}

// sick returns a function that returns eight H100 cards, the fourth of which is modified by change.
func sick(change func(*Card)) func() Machine {
	return h100s(func(machine *Machine) { change(&machine.Cards[3]) })
}

func each(change func(*Card)) func() Machine {
	return h100s(func(machine *Machine) {
		for i := range machine.Cards {
			change(&machine.Cards[i])
		}
	})
}

// fails returns a function that returns eight H100 cards for which the start of NVML returns the
// given code.
func fails(code int) func() Machine {
	return h100s(func(machine *Machine) { machine.Init = code })
}

// Scenarios lists all scenarios. Healthy machines of several kinds come first, followed by eight
// H100 cards with a broken driver, with broken cards, and with broken connections.
var Scenarios = []Scenario{
	{"gpus-8", "eight healthy H100 with NVSwitches", func() Machine { return H100s(8) }},
	{"gpus-4", "four healthy H100 with NVSwitches", func() Machine { return H100s(4) }},
	{"gpus-a100", "eight A100 with NVSwitches, driver 535", func() Machine { return A100s(8) }},
	{"gpus-a100-pcie", "eight A100 without NVLink, driver 535", func() Machine { return A100PCIes(8) }},
	{"gpus-l4", "two L4", func() Machine { return L4s(2) }},
	{"gpus-gb200", "four GB200 of an NVL72 rack, driver 570", func() Machine { return GB200s(4) }},
	{"gpus-v100", "eight V100 with driver 450, whose NVML lacks newer functions", func() Machine { return V100s(8) }},
	{"gpus-rtx4090", "eight RTX 4090 that cannot access each other's memory", func() Machine { return RTX4090s(8) }},
	{"gpus-mig", "eight H100, each cut into seven MIG instances", each(func(card *Card) {
		card.MIG, card.MIGPending = "enabled", "enabled"
		card.MIGDevices = []string{"1g.10gb", "1g.10gb", "1g.10gb", "1g.10gb", "1g.10gb", "1g.10gb", "1g.10gb"}
	})},

	{"driver-other", "driver 535, all other nodes have 550", h100s(func(machine *Machine) {
		machine.Driver, machine.Module, machine.FabricManager, machine.CUDA = "535.161.08", "535.161.08", "535.161.08", "12.2"
	})},
	{"driver-unloaded", "the kernel module is not loaded", h100s(func(machine *Machine) { machine.Module, machine.FabricManagerRuns = "", false })},
	{"driver-nouveau", "nouveau has taken the cards", h100s(func(machine *Machine) {
		machine.Module, machine.Bound, machine.FabricManagerRuns = "", "nouveau", false
	})},
	{"driver-mismatch", "the library is newer than the loaded kernel module", h100s(func(machine *Machine) { machine.Driver = "550.90.07" })},
	{"driver-unknown-error", "NVML does not start: unknown error, as in a container that lost its devices", fails(nvmlUnknown)},
	{"driver-no-permission", "NVML does not start: insufficient permissions", fails(nvmlNoPermission)},
	{"driver-gpu-lost", "NVML does not start: a card is lost", fails(nvmlLost)},
	{"driver-no-devices", "the driver is loaded but has no card", func() Machine { return H100s(0) }},
	{"driver-hung", "NVML hangs when it starts", h100s(func(machine *Machine) { machine.Hang = Call{"nvmlInit_v2", -1} })},
	{"driver-crash", "NVML crashes when it starts", h100s(func(machine *Machine) { machine.Crash = Call{"nvmlInit_v2", -1} })},
	{"driver-no-library", "NVIDIA's libraries are not installed", h100s(func(machine *Machine) { machine.NoLibrary = true })},
	{"driver-no-nvml", "NVIDIA's libraries are installed without NVML", h100s(func(machine *Machine) { machine.NoNVML = true })},
	{"driver-no-uvm", "nvidia_uvm is not loaded", h100s(func(machine *Machine) { machine.NoUVM = true })},

	{"gpu-lost", "GPU 3 has fallen off the bus", sick(func(card *Card) { card.Lost = true })},
	{"gpu-unbound", "GPU 3 is on the bus, but not bound to the driver", sick(func(card *Card) { card.Unbound = true })},
	{"gpu-hung", "a query for the name of GPU 3 hangs", h100s(func(machine *Machine) { machine.Hang = Call{"nvmlDeviceGetName", 3} })},
	{"gpu-crash", "a query for the name of GPU 3 crashes", h100s(func(machine *Machine) { machine.Crash = Call{"nvmlDeviceGetName", 3} })},
	{"gpu-ecc", "GPU 3 has uncorrectable memory errors", sick(func(card *Card) { card.ECC.Uncorrected, card.ECC.AggregateUncorrected = 2, 2 })},
	{"gpu-remap-pending", "GPU 3 needs a reset to remap a row of memory", sick(func(card *Card) { card.Remapped = &Remapped{Uncorrected: 1, Pending: true} })},
	{"gpu-remap-failed", "GPU 3 has no spare rows left for remapping", sick(func(card *Card) { card.Remapped = &Remapped{Uncorrected: 512, Failed: true} })},
	{"gpu-retired", "GPU 3 of eight V100 needs a reset to retire a page of memory", func() Machine {
		machine := V100s(8)
		machine.Cards[3].Retired = &Retired{DoubleBit: 1, Pending: true}
		return machine
	}},
	{"gpu-busy", "a process uses 20 GiB of GPU 3", sick(func(card *Card) {
		card.Processes = []Process{{PID: 4242, Name: "/usr/bin/python3", Kind: "compute", Memory: 20 << 30}}
		card.MemoryUsed, card.Busy, card.Throttle = 20<<30, 97, nil
	})},
	{"gpu-exclusive", "GPU 3 admits only one process", sick(func(card *Card) { card.ComputeMode = "exclusive-process" })},
	{"gpu-prohibited", "GPU 3 admits no process", sick(func(card *Card) { card.ComputeMode = "prohibited" })},
	{"gpu-one-mig", "GPU 3 is cut into MIG instances, the others are not", sick(func(card *Card) {
		card.MIG, card.MIGPending, card.MIGDevices = "enabled", "enabled", []string{"3g.40gb", "3g.40gb"}
	})},
	{"gpu-persistence-off", "persistence mode is off on all cards", each(func(card *Card) { card.Persistence = false })},
	{"gpu-hot", "GPU 3 is too hot and slows down", sick(func(card *Card) {
		card.Celsius, card.Throttle, card.Clock.SM = 91, []string{"hw-slowdown", "sw-thermal", "hw-thermal"}, 1050
	})},
	{"gpu-power-brake", "the power supply slows GPU 3 down", sick(func(card *Card) {
		card.Throttle, card.Clock.SM = []string{"hw-slowdown", "hw-power-brake"}, 345
	})},
	{"gpu-power-limit", "GPU 3 is limited to 400 W of 700", sick(func(card *Card) { card.Power.Limit = 400 })},
	{"gpu-sensor", "the power sensor of GPU 3 does not answer, which also happens on healthy cards", sick(func(card *Card) {
		card.Fails = map[string]int{"nvmlDeviceGetPowerUsage": nvmlUnknown}
	})},
	{"gpu-recovery", "the driver asks for a reset of GPU 3 of four GB200", func() Machine {
		machine := GB200s(4)
		machine.Cards[3].Recovery = "reset"
		return machine
	}},
	{"gpus-hidden", "the session sees only four of eight GPUs", h100s(func(machine *Machine) {
		for i := range 4 {
			machine.Cards[i].Fails = map[string]int{handleFunction: nvmlNoPermission}
		}
	})},

	{"gpu-narrow-link", "GPU 3 has 8 of 16 PCIe lanes", sick(func(card *Card) { card.Link.Width = 8 })},
	{"gpu-nvlink-down", "two NVLinks of GPU 3 are down", sick(func(card *Card) { card.NVLinks[4].Down, card.NVLinks[11].Down = true, true })},
	{"gpu-nvlink-errors", "an NVLink of GPU 3 has replayed 70,000 packets", sick(func(card *Card) { card.NVLinks[7].Replays, card.NVLinks[7].CRC = 70_000, 120 })},
	{"gpu-no-peers", "GPU 3 and the other GPUs cannot access each other's memory", h100s(func(machine *Machine) {
		machine.Cards[3].Apart = map[int]int{}
		for i := range machine.Cards {
			if i != 3 {
				machine.Cards[3].Apart[i], machine.Cards[i].Apart = 1, map[int]int{3: 1}
			}
		}
	})},
	{"gpu-acs", "eight A100 whose PCIe switches send all traffic between GPUs through the processors (ACS)", func() Machine {
		machine := A100PCIes(8)
		machine.ACS, machine.IOMMU = true, "DMA-FQ"
		return machine
	}},
	{"gpu-fabric-down", "the fabric manager does not run, so no card is in the fabric", h100s(func(machine *Machine) {
		machine.FabricManagerRuns = false
		for i := range machine.Cards {
			machine.Cards[i].Fabric = &Fabric{State: 1}
		}
	})},
	{"gpu-fabric-failed", "GPU 3 failed to join the fabric", sick(func(card *Card) { card.Fabric.Status = 23 })},
	{"gpu-fabric-waiting", "GPU 3 is still joining the fabric", sick(func(card *Card) { card.Fabric = &Fabric{State: 2} })},
	{"gpu-fabric-version", "the fabric manager has another version than the driver", h100s(func(machine *Machine) { machine.FabricManager = "535.161.08" })},
}
