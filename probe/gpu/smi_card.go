// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"cmp"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
	"preflight/internal/lazyregexp"
	"preflight/probe/machine"
)

// mebibyte is the unit of memory in nvidia-smi's documents.
const mebibyte = int64(1 << 20)

// smiCard is one GPU of the document.
func smiCard(gpu *element) facts.Card {
	card := facts.Card{
		UUID: gpu.value("uuid"), Name: gpu.value("product_name"), Serial: gpu.value("serial"), VBIOS: gpu.value("vbios_version"),
		Address: busAddress(gpu.value("pci/pci_bus_id")), Minor: optional(gpu, 1, "minor_number"),
		MemoryUsed:     optional(gpu, mebibyte, "fb_memory_usage/used", "memory_usage/used"),
		MemoryReserved: optional(gpu, mebibyte, "fb_memory_usage/reserved"),
		Temperature:    optional(gpu, 1, "temperature/gpu_temp"),
		SlowdownAt:     optional(gpu, 1, "temperature/gpu_temp_slow_threshold"),
		Throttle:       smiThrottle(gpu), Utilization: optional(gpu, 1, "utilization/gpu_util"),
		MIG: strings.ToLower(gpu.value("mig_mode/current_mig")), MIGPending: strings.ToLower(gpu.value("mig_mode/pending_mig")),
		ECC: smiECC(gpu), Retired: smiRetired(gpu), Remapped: smiRemapped(gpu),
		Processes: smiProcesses(gpu), Fabric: smiFabric(gpu),
		Recovery: smiRecovery(gpu.value("gpu_recovery_action")),
	}
	card.Failure, card.Refused = gpu.failures()
	if card.Address == "" {
		card.Address = busAddress(gpu.id)
	}
	total, _ := gpu.number("fb_memory_usage/total", "memory_usage/total")
	card.Memory = int64(total) * mebibyte
	if mode := gpu.value("persistence_mode"); mode != "" {
		card.Persistence = new(mode == "Enabled")
	}
	switch mode := gpu.value("compute_mode"); mode {
	case "":
	case "Default", "Prohibited":
		card.ComputeMode = strings.ToLower(mode)
	default: // Exclusive_Process, and the obsolete Exclusive_Thread
		card.ComputeMode = "exclusive-process"
	}
	if link := gpu.at("pci/pci_gpu_link_info"); link != nil {
		card.Link = facts.PCILink{
			Generation: link.whole("pcie_gen/current_link_gen"), MaxGeneration: link.whole("pcie_gen/max_link_gen"),
			Width: link.whole("link_widths/current_link_width"), MaxWidth: link.whole("link_widths/max_link_width"),
		}
	}
	card.Link.Replays = optional(gpu, int64(1), "pci/replay_counter")
	card.Clock, card.Power = smiClock(gpu), smiPower(gpu)
	return card
}

// smiRecovery is what the driver wants done about a GPU, in the words of facts.
func smiRecovery(action string) string {
	switch action {
	case "", "None", "Reset", "Reboot":
		return strings.ToLower(action)
	case "Drain P2P":
		return "drain"
	case "Drain and Reset":
		return "drain-and-reset"
	case "Recover IMEX Domain":
		return "recover-imex"
	case "Bus Reset":
		return "bus-reset"
	case "System Reboot":
		return "system-reboot"
	}
	return "other"
}

// busAddress is a PCI address as sysfs spells it: NVML's has capitals, and eight
// digits for a domain that nearly always takes four.
func busAddress(id string) string {
	address := strings.ToLower(id)
	for len(address) > len("0000:4e:00.0") && address[0] == '0' {
		address = address[1:]
	}
	if !machine.PCIAddress.MatchString(address) {
		return ""
	}
	return address
}

// smiThrottle are the reasons that hold, by NVML's names. The parts were called
// throttle reasons before driver 535.
func smiThrottle(gpu *element) []string {
	reasons := gpu.at("clocks_event_reasons")
	if reasons == nil {
		reasons = gpu.at("clocks_throttle_reasons")
	}
	if reasons == nil || len(reasons.parts) == 0 {
		return nil
	}
	active := []string{}
	for _, reason := range reasons.parts {
		_, name, known := strings.Cut(reason.name, "_reason_")
		if !known || strings.TrimSpace(reason.text) != "Active" {
			continue
		}
		name = strings.TrimSuffix(name, "_setting")
		if name != "hw_slowdown" {
			name = strings.TrimSuffix(name, "_slowdown")
		}
		active = append(active, strings.ReplaceAll(name, "_", "-"))
	}
	return active
}

// smiClock counts as set what differs from how the GPU comes: every one that knows
// clocks for applications has some.
func smiClock(gpu *element) facts.GPUClock {
	clock := facts.GPUClock{
		SM: gpu.whole("clocks/sm_clock", "clocks/graphics_clock"), MaxSM: gpu.whole("max_clocks/sm_clock", "max_clocks/graphics_clock"),
		Memory: gpu.whole("clocks/mem_clock"), MaxMemory: gpu.whole("max_clocks/mem_clock"),
	}
	usual := cmp.Or(gpu.whole("default_applications_clocks/graphics_clock"), clock.MaxSM)
	if set := gpu.whole("applications_clocks/graphics_clock"); set != usual {
		clock.AppSM = set
	}
	return clock
}

// smiPower reads the GPU's own readings, which were the only ones before driver
// 535; a module's, of GPU and processor together, are another thing.
func smiPower(gpu *element) facts.GPUPower {
	watts := func(names ...string) float64 {
		var paths []string
		for _, name := range names {
			paths = append(paths, "gpu_power_readings/"+name, "power_readings/"+name)
		}
		value, _ := gpu.number(paths...)
		return value
	}
	return facts.GPUPower{
		Draw:    watts("power_draw", "average_power_draw", "instant_power_draw"),
		Limit:   watts("enforced_power_limit", "current_power_limit", "power_limit"),
		Default: watts("default_power_limit"), Max: watts("max_power_limit"),
	}
}

// smiECC adds up what is counted apart since driver 450 (memory on the chip and
// beside it) and again since 545 (parity and double errors on the chip).
func smiECC(gpu *element) *facts.ECC {
	mode := gpu.value("ecc_mode/current_ecc")
	if mode == "" {
		return nil
	}
	sum := func(since string, names ...string) (total *int64) {
		for _, name := range names {
			count := optional(gpu, int64(1), "ecc_errors/"+since+"/"+name)
			if count != nil && total != nil {
				*count += *total
			}
			if count != nil {
				total = count
			}
		}
		return total
	}
	corrected := []string{"single_bit/total", "sram_correctable", "dram_correctable"}
	uncorrected := []string{"double_bit/total", "sram_uncorrectable", "sram_uncorrectable_parity", "sram_uncorrectable_secded", "dram_uncorrectable"}
	ecc := &facts.ECC{
		Enabled:   mode == "Enabled",
		Corrected: sum("volatile", corrected...), Uncorrected: sum("volatile", uncorrected...),
		AggregateCorrected: sum("aggregate", corrected...), AggregateUncorrected: sum("aggregate", uncorrected...),
	}
	if exceeded := gpu.value("ecc_errors/aggregate/sram_threshold_exceeded"); exceeded != "" {
		ecc.SRAMExceeded = new(exceeded == "Yes")
	}
	if next := gpu.value("ecc_mode/pending_ecc"); next != "" {
		ecc.Pending = new(next == "Enabled")
	}
	return ecc
}

func smiRetired(gpu *element) *facts.Retired {
	pages := gpu.at("retired_pages")
	if pages == nil || pages.value("double_bit_retirement/retired_count") == "" {
		return nil
	}
	return &facts.Retired{
		SingleBit: pages.whole("multiple_single_bit_retirement/retired_count"),
		DoubleBit: pages.whole("double_bit_retirement/retired_count"),
		Pending:   pages.value("pending_retirement") == "Yes",
	}
}

func smiRemapped(gpu *element) *facts.Remapped {
	rows := gpu.at("remapped_rows")
	if rows == nil || rows.value("remapped_row_unc") == "" {
		return nil
	}
	return &facts.Remapped{
		Corrected: rows.whole("remapped_row_corr"), Uncorrected: rows.whole("remapped_row_unc"),
		Pending: rows.value("remapped_row_pending") == "Yes", Failed: rows.value("remapped_row_failure") == "Yes",
	}
}

// smiProcesses are nil when they are not told: the part is there, and empty, where
// there is none.
func smiProcesses(gpu *element) []facts.GPUUser {
	processes := gpu.at("processes")
	if processes == nil || len(processes.parts) == 0 && strings.TrimSpace(processes.text) != "" {
		return nil
	}
	users := []facts.GPUUser{}
	for _, process := range processes.parts {
		user := facts.GPUUser{PID: process.whole("pid"), Kind: "compute", Memory: optional(process, mebibyte, "used_memory")}
		switch process.value("type") {
		case "G":
			user.Kind = "graphics"
		case "M", "M+C":
			user.Kind = "mps"
		}
		if name := process.value("process_name"); name != "" {
			name = filepath.Base(name)
			user.Name = name[:min(processName, len(name))]
		}
		users = append(users, user)
	}
	return users
}

// smiFabric words the states as nvmlGpuFabricState_t does.
func smiFabric(gpu *element) *facts.GPUFabric {
	fabric := gpu.at("fabric")
	if fabric == nil {
		return nil
	}
	state := strings.ReplaceAll(strings.ToLower(fabric.raw("state")), " ", "-")
	if !slices.Contains([]string{"not-supported", "not-started", "in-progress", "completed"}, state) {
		return nil
	}
	seen := &facts.GPUFabric{State: state, Clique: fabric.whole("cliqueId")}
	if status := fabric.raw("status"); state == "completed" && status != "Success" && status != "N/A" {
		seen.Status = status // before it is completed, it means nothing
	}
	if cluster := strings.ToLower(fabric.value("clusterUuid")); strings.Trim(cluster, "0-") != "" {
		seen.Cluster = cluster
	}
	for _, part := range []struct{ name, well, means string }{
		{"bandwidth", "Full", "bandwidth"},
		{"route_recovery_in_progress", "False", "route-recovery"},
		{"route_unhealthy", "False", "route"},
		{"access_timeout_recovery", "False", "access-timeout"},
		{"incorrect_configuration", "None", "configuration"},
	} {
		if text := fabric.value("health/" + part.name); text != "" && !strings.EqualFold(text, part.well) {
			seen.Degraded = append(seen.Degraded, part.means)
		}
	}
	return seen
}

// A line for a GPU that cannot be asked. It was named by its address, then by its
// index, then by both (nvidia-smi, drivers 390, 525, 550).
var unreachableGPU = lazyregexp.New(`Unable to determine the device handle for (?i:gpu) ?(?:([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])|(\d{1,4})(?:: ?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]))?): ?(.+)`)

// A line at the end, for a GPU that can.
var damagedInfoROM = lazyregexp.New(`infoROM is corrupted at (?i:gpu) ([0-9A-Fa-f:.]+)`)

// addUnreachable puts GPUs that only lines beside the document name where NVML counts
// them, by address, and numbers all; those that are not shown to us are then
// counted only. Where there is no document, one without an index has no place.
func addUnreachable(around string, seen *facts.NVML) {
	others := len(seen.Cards) > 0
	for _, match := range unreachableGPU.FindAllStringSubmatch(around, smiCards) {
		failure := smiComplaint(match[4])
		if failure == nil {
			failure = &facts.NVMLFailure{Kind: facts.FailureOther}
		}
		failure.Text = machine.Clipped(match[0])
		card := facts.Card{Failure: failure, Address: busAddress(match[1] + match[3])}
		index, err := strconv.Atoi(match[2])
		place := index
		if err != nil {
			place = slices.IndexFunc(seen.Cards, func(other facts.Card) bool { return other.Address > card.Address })
		}
		if place < 0 || place > len(seen.Cards) {
			place = len(seen.Cards)
		}
		if card.Index = index; others || err == nil {
			seen.Cards = slices.Insert(seen.Cards, place, card)
		}
	}
	for i := range seen.Cards {
		if others {
			seen.Cards[i].Index = i
		}
	}
	for _, match := range damagedInfoROM.FindAllStringSubmatch(around, smiCards) {
		for i, card := range seen.Cards {
			if card.Failure == nil && card.Address == busAddress(match[1]) && len(card.Refused) < smiRefusals {
				seen.Cards[i].Refused = append(card.Refused, facts.NVMLFailure{Kind: facts.FailureOther, Code: 14, Text: machine.Clipped(match[0])})
			}
		}
	}
	shown := slices.DeleteFunc(seen.Cards, func(card facts.Card) bool {
		return card.Failure != nil && card.Failure.Kind == facts.FailureNoPermission
	})
	seen.Hidden, seen.Cards = len(seen.Cards)-len(shown), shown
}
