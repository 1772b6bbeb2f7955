package testhosts

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ScenarioVariable names the file that the stub library reads instead of
// /etc/nvml-stub.scenario.
const ScenarioVariable = "NVML_STUB_SCENARIO"

// scenarioFile is what the stub library reads: one "key value" a line. Lines from
// "gpu" to the next "gpu" or "mig" are of that card or of that instance of the card above.
// A key that is absent is a thing that is not supported.
func (g GPUs) scenarioFile() []byte {
	g = g.driven()
	var file scenario
	file.add("init", "%d", g.initCode())
	file.add("driver", "%s", g.Driver)
	file.add("cuda", "%s", g.CUDA)
	file.addCall("hang", g.Hang)
	file.addCall("crash", g.Crash)
	for i := range g.Cards {
		g.addCard(&file, i)
	}
	return file.Bytes()
}

type scenario struct{ bytes.Buffer }

func (s *scenario) add(key, format string, values ...any) {
	fmt.Fprintf(s, key+" "+format+"\n", values...)
}

// addString adds what is not supported when it is "".
func (s *scenario) addString(key, value string) {
	if value != "" {
		s.add(key, "%s", value)
	}
}

func (s *scenario) addCall(key string, call NVMLCall) {
	if call.Function != "" {
		s.add(key, "%s %d", call.Function, call.GPU)
	}
}

func (g GPUs) addCard(s *scenario, i int) {
	card := g.Cards[i]
	s.add("gpu", "%d", i)
	if card.Lost {
		s.add("fail."+handleFunction, "%d", nvmlLost)
	}
	for _, function := range slices.Sorted(maps.Keys(card.Fails)) {
		s.add("fail."+function, "%d", card.Fails[function])
	}
	s.add("name", "%s", card.Name)
	s.add("uuid", "%s", card.UUID)
	s.addString("serial", card.Serial)
	s.add("vbios", "%s", card.VBIOS)
	s.add("capability", "%s", strings.ReplaceAll(card.Capability, ".", " "))
	s.add("pci", "%s %04x10de", card.Address(), card.Device)
	s.add("minor", "%d", i)
	s.add("numa", "%d", card.NUMA)
	s.add("cpus", "%s", card.CPUs)
	s.add("memory", "%d %d %d", card.Memory, card.MemoryReserved, card.MemoryUsed)
	s.add("link", "%d %d %d %d %d", card.Link.Generation, card.Link.MaxGeneration, card.Link.Width, card.Link.MaxWidth, card.Link.Replays)
	s.add("clock", "%d %d %d %d %d", card.Clock.SM, card.Clock.MaxSM, card.Clock.Memory, card.Clock.MaxMemory, card.Clock.AppSM)
	s.add("power", "%.0f %.0f %.0f %.0f %.0f", 1000*card.Power.Draw, 1000*card.Power.Limit, 1000*card.Power.Default, 1000*card.Power.Min, 1000*card.Power.Max)
	s.add("temperature", "%d %d", card.Celsius, card.SlowAt)
	s.add("throttle", "%d", card.throttleMask())
	s.add("utilization", "%d 0", card.Busy)
	s.add("persistence", "%d", bit(card.Persistence))
	s.add("compute-mode", "%d", map[string]int{"default": 0, "prohibited": 2, "exclusive-process": 3}[card.ComputeMode])
	if recovery := slices.Index(recoveries, card.Recovery); recovery >= 0 {
		s.add("recovery", "%d", recovery)
	}
	card.addMemoryHealth(s)
	card.addNeighbours(s)
	for j, other := range g.Cards {
		if j != i {
			s.add(fmt.Sprintf("topology.%d", j), "%d", topology(card, other))
			s.add(fmt.Sprintf("p2p.%d", j), "%d", card.Apart[j])
		}
	}
	card.addUsers(s)
}

// addMemoryHealth adds error correction and what it took out of use.
func (card GPU) addMemoryHealth(s *scenario) {
	if ecc := card.ECC; ecc != nil {
		s.add("ecc", "%d %d %d %d %d %d", bit(ecc.Enabled), bit(ecc.Pending), ecc.Corrected, ecc.Uncorrected, ecc.AggregateCorrected, ecc.AggregateUncorrected)
	}
	if retired := card.Retired; retired != nil {
		s.add("retired", "%d %d %d", retired.SingleBit, retired.DoubleBit, bit(retired.Pending))
	}
	if rows := card.Remapped; rows != nil {
		s.add("remapped", "%d %d %d %d", rows.Corrected, rows.Uncorrected, bit(rows.Pending), bit(rows.Failed))
	}
}

// addNeighbours adds the card's links and its fabric.
func (card GPU) addNeighbours(s *scenario) {
	if len(card.NVLinks) > 0 {
		s.add("nvlinks", "%d", len(card.NVLinks))
	}
	for i, link := range card.NVLinks {
		kind := map[string]int{"gpu": 0, "npu": 1, "switch": 2}[link.Kind]
		s.add(fmt.Sprintf("nvlink.%d", i), "%d %d %d %d %d %d %s", bit(!link.Down), link.Speed, kind, link.Replays, link.Recover, link.CRC, link.Remote)
	}
	if fabric := card.Fabric; fabric != nil {
		s.add("fabric", "%d %d %d %d %s", fabric.State, fabric.Status, fabric.Clique, fabric.Health, strings.ReplaceAll(fabric.Cluster, "-", ""))
	}
}

// addUsers adds the card's processes, and last, for they open a part of the file
// that is their own, its MIG instances.
func (card GPU) addUsers(s *scenario) {
	counts := map[string]int{}
	for _, process := range card.Processes {
		s.add(fmt.Sprintf("%s.%d", process.Kind, counts[process.Kind]), "%d %d", process.PID, process.Memory)
		counts[process.Kind]++
	}
	if card.MIG != "" {
		s.add("mig-mode", "%d %d", bit(card.MIG == "enabled"), bit(card.MIGPending == "enabled"))
	}
	for i, name := range card.MIGDevices {
		s.add("mig", "%d", i)
		s.add("name", "%s MIG %s", card.Name, name)
		s.add("uuid", "%s", card.migUUID(i))
		share := card.Memory / 8
		s.add("memory", "%d 0 %d", share, 12*miB)
	}
}

// migUUID is made from the card's.
func (card GPU) migUUID(i int) string {
	return fmt.Sprintf("MIG-%s%02x", strings.TrimPrefix(card.UUID, "GPU-")[:len(card.UUID)-6], i)
}

// throttleReasons are NVML's bits in order (nvml.h, nvmlClocksEventReason…).
var throttleReasons = []string{
	"gpu-idle", "applications-clocks", "sw-power-cap", "hw-slowdown", "sync-boost", "sw-thermal", "hw-thermal", "hw-power-brake", "display-clocks",
}

func (card GPU) throttleMask() (mask int) {
	for i, reason := range throttleReasons {
		if slices.Contains(card.Throttle, reason) {
			mask |= 1 << i
		}
	}
	return mask
}

// recoveries are in NVML's order (nvml.h, nvmlDeviceGpuRecoveryAction_t).
var recoveries = []string{"none", "reset", "reboot", "drain", "drain-and-reset"}

func bit(set bool) int {
	if set {
		return 1
	}
	return 0
}
