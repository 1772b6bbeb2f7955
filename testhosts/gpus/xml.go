// SPDX-License-Identifier: Apache-2.0

package gpus

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
)

// XML is the document that nvidia-smi -q -x prints, as the driver's generation
// words it: up to 530 in version 11 of NVIDIA's format, later in version 12.
func (g Machine) XML() []byte {
	g = g.driven()
	root := tag("nvidia_smi_log",
		leaf("timestamp", "Sat Jan  6 09:00:00 2024"),
		leaf("driver_version", "%s", g.Driver),
		leaf("cuda_version", "%s", g.CUDA),
		leaf("attached_gpus", "%d", len(g.Cards)),
	)
	for i, card := range g.Cards {
		if card.handleCode() == 0 {
			root.children = append(root.children, g.cardXML(i))
		}
	}
	var document bytes.Buffer
	fmt.Fprintf(&document, "<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v%d.dtd\">\n", map[bool]int{true: 12, false: 11}[g.modern()])
	root.write(&document, "")
	return document.Bytes()
}

// modern is whether nvidia-smi speaks of event reasons and of the GPU's own power.
func (g Machine) modern() bool { return g.Driver >= "535" }

// element is a node of the document: a text or others.
type element struct {
	name, attributes, text string
	children               []element
}

func tag(name string, children ...element) element { return element{name: name, children: children} }

func leaf(name, format string, values ...any) element {
	return element{name: name, text: fmt.Sprintf(format, values...)}
}

func (e element) write(document *bytes.Buffer, indent string) {
	if len(e.children) == 0 {
		fmt.Fprintf(document, "%s<%s%s>", indent, e.name, e.attributes)
		xml.EscapeText(document, []byte(e.text)) // a Buffer takes everything
		fmt.Fprintf(document, "</%s>\n", e.name)
		return
	}
	fmt.Fprintf(document, "%s<%s%s>\n", indent, e.name, e.attributes)
	for _, child := range e.children {
		child.write(document, indent+"\t")
	}
	fmt.Fprintf(document, "%s</%s>\n", indent, e.name)
}

// busID is a PCI address as NVML spells it, with a long domain and in capitals.
func busID(address string) string { return "0000" + strings.ToUpper(address) }

func (g Machine) cardXML(i int) element {
	card := g.Cards[i]
	parts := []element{
		leaf("product_name", "%s", card.Name),
		leaf("product_brand", "%s", card.Brand),
		leaf("product_architecture", "%s", cmp.Or(card.Arch, "N/A")),
		leaf("persistence_mode", "%s", enabled(card.Persistence)),
		tag("mig_mode", leaf("current_mig", "%s", cmp.Or(title(card.MIG), "N/A")), leaf("pending_mig", "%s", cmp.Or(title(card.MIGPending), "N/A"))),
		card.migXML(),
		leaf("serial", "%s", cmp.Or(card.Serial, "N/A")),
		leaf("uuid", "%s", card.UUID),
		leaf("minor_number", "%d", i),
		leaf("vbios_version", "%s", card.VBIOS),
		card.pciXML(),
		leaf("fan_speed", "N/A"),
		leaf("performance_state", "%s", card.PState),
		card.reasonsXML(g.modern()),
		card.memoryXML(),
		leaf("compute_mode", "%s", map[string]string{"default": "Default", "exclusive-process": "Exclusive_Process", "prohibited": "Prohibited"}[card.ComputeMode]),
		tag("utilization", leaf("gpu_util", "%d %%", card.Busy), leaf("memory_util", "0 %%")),
	}
	if card.Recovery != "" {
		words := map[string]string{
			"drain": "Drain P2P", "drain-and-reset": "Drain and Reset",
			"recover-imex": "Recover IMEX Domain", "bus-reset": "Bus Reset", "system-reboot": "System Reboot",
		}[card.Recovery]
		parts = append(parts, leaf("gpu_recovery_action", "%s", cmp.Or(words, title(card.Recovery))))
	}
	parts = append(parts, card.memoryHealthXML()...)
	parts = append(parts,
		tag("temperature",
			leaf("gpu_temp", "%d C", card.Celsius),
			leaf("gpu_temp_max_threshold", "%d C", card.SlowAt+3),
			leaf("gpu_temp_slow_threshold", "%d C", card.SlowAt)),
		card.powerXML(g.modern()))
	parts = append(parts, card.clocksXML()...)
	if g.modern() {
		parts = append(parts, card.fabricXML())
	}
	return element{name: "gpu", attributes: fmt.Sprintf(" id=%q", busID(card.Address())), children: append(parts, card.processesXML())}
}

// memoryXML says what is reserved where the driver is of an age that does.
func (card Card) memoryXML() element {
	usage := tag("fb_memory_usage", leaf("total", "%d MiB", card.Memory/miB))
	if card.MemoryReserved > 0 {
		usage.children = append(usage.children, leaf("reserved", "%d MiB", card.MemoryReserved/miB))
	}
	usage.children = append(usage.children, leaf("used", "%d MiB", card.MemoryUsed/miB),
		leaf("free", "%d MiB", (card.Memory-card.MemoryReserved-card.MemoryUsed)/miB))
	return usage
}

func (card Card) migXML() element {
	if len(card.MIGDevices) == 0 {
		return leaf("mig_devices", "None")
	}
	var devices []element
	for i := range card.MIGDevices {
		devices = append(devices, tag("mig_device",
			leaf("index", "%d", i), leaf("gpu_instance_id", "%d", i+7), leaf("compute_instance_id", "0"),
			tag("fb_memory_usage", leaf("total", "%d MiB", card.Memory/8/miB), leaf("used", "12 MiB"), leaf("free", "%d MiB", card.Memory/8/miB-12))))
	}
	return tag("mig_devices", devices...)
}

func (card Card) pciXML() element {
	id, link := busID(card.Address()), card.Link
	return tag("pci",
		leaf("pci_bus", "%s", id[9:11]), leaf("pci_device", "%s", id[12:14]), leaf("pci_domain", "%s", id[4:8]),
		leaf("pci_device_id", "%04X10DE", card.Device),
		leaf("pci_bus_id", "%s", id),
		tag("pci_gpu_link_info",
			tag("pcie_gen", leaf("max_link_gen", "%d", link.MaxGeneration), leaf("current_link_gen", "%d", link.Generation)),
			tag("link_widths", leaf("max_link_width", "%dx", link.MaxWidth), leaf("current_link_width", "%dx", link.Width))),
		leaf("replay_counter", "%d", link.Replays))
}

// reasonsXML has for every reason whether it holds, under the name that the
// document's version has for them.
func (card Card) reasonsXML(modern bool) element {
	prefix := map[bool]string{true: "clocks_event_reason", false: "clocks_throttle_reason"}[modern]
	all := tag(prefix + "s")
	for i, name := range []string{
		"gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal_slowdown",
		"hw_thermal_slowdown", "hw_power_brake_slowdown", "display_clocks_setting",
	} {
		now := map[bool]string{true: "Active", false: "Not Active"}[slices.Contains(card.Throttle, throttleReasons[i])]
		all.children = append(all.children, leaf(prefix+"_"+name, "%s", now))
	}
	return all
}

func (card Card) memoryHealthXML() []element {
	mode, errors := [2]string{"N/A", "N/A"}, [4]string{"N/A", "N/A", "N/A", "N/A"}
	if ecc := card.ECC; ecc != nil {
		mode = [2]string{enabled(ecc.Enabled), enabled(ecc.Pending)}
		if ecc.Enabled {
			errors = [4]string{fmt.Sprint(ecc.Corrected), fmt.Sprint(ecc.Uncorrected), fmt.Sprint(ecc.AggregateCorrected), fmt.Sprint(ecc.AggregateUncorrected)}
		}
	}
	zero := map[bool]string{true: "0", false: "N/A"}[card.ECC != nil && card.ECC.Enabled]
	count := func(name, corrected, uncorrected string) element {
		return tag(name, leaf("sram_correctable", "%s", zero), leaf("sram_uncorrectable", "%s", zero),
			leaf("dram_correctable", "%s", corrected), leaf("dram_uncorrectable", "%s", uncorrected))
	}
	single, double, pages := "N/A", "N/A", "N/A"
	if retired := card.Retired; retired != nil {
		single, double, pages = fmt.Sprint(retired.SingleBit), fmt.Sprint(retired.DoubleBit), yes(retired.Pending)
	}
	rows := leaf("remapped_rows", "N/A")
	if remapped := card.Remapped; remapped != nil {
		rows = tag("remapped_rows",
			leaf("remapped_row_corr", "%d", remapped.Corrected), leaf("remapped_row_unc", "%d", remapped.Uncorrected),
			leaf("remapped_row_pending", "%s", yes(remapped.Pending)), leaf("remapped_row_failure", "%s", yes(remapped.Failed)))
	}
	return []element{
		tag("ecc_mode", leaf("current_ecc", "%s", mode[0]), leaf("pending_ecc", "%s", mode[1])),
		tag("ecc_errors", count("volatile", errors[0], errors[1]), count("aggregate", errors[2], errors[3])),
		tag("retired_pages",
			tag("multiple_single_bit_retirement", leaf("retired_count", "%s", single)),
			tag("double_bit_retirement", leaf("retired_count", "%s", double)),
			leaf("pending_blacklist", "%s", pages), leaf("pending_retirement", "%s", pages)),
		rows,
	}
}

func (card Card) powerXML(modern bool) element {
	name, limit := "power_readings", "power_limit"
	if modern {
		name, limit = "gpu_power_readings", "current_power_limit"
	}
	draw := leaf("power_draw", "%.2f W", card.Power.Draw)
	if card.Fails["nvmlDeviceGetPowerUsage"] == nvmlUnknown {
		draw.text = "[Unknown Error]"
	}
	readings := tag(name, leaf("power_state", "%s", card.PState), draw, leaf(limit, "%.2f W", card.Power.Limit))
	if !modern {
		readings.children = append(readings.children, leaf("enforced_power_limit", "%.2f W", card.Power.Limit))
	}
	readings.children = append(readings.children, leaf("default_power_limit", "%.2f W", card.Power.Default),
		leaf("min_power_limit", "%.2f W", card.Power.Min), leaf("max_power_limit", "%.2f W", card.Power.Max))
	return readings
}

func (card Card) clocksXML() []element {
	clocks := func(name string, sm, memory int) element {
		return tag(name, leaf("graphics_clock", "%d MHz", sm), leaf("sm_clock", "%d MHz", sm), leaf("mem_clock", "%d MHz", memory))
	}
	applications := tag("applications_clocks", leaf("graphics_clock", "N/A"), leaf("mem_clock", "N/A"))
	if card.Clock.AppSM != 0 {
		applications = tag("applications_clocks", leaf("graphics_clock", "%d MHz", card.Clock.AppSM), leaf("mem_clock", "%d MHz", card.Clock.MaxMemory))
	}
	return []element{clocks("clocks", card.Clock.SM, card.Clock.Memory), applications, clocks("max_clocks", card.Clock.MaxSM, card.Clock.MaxMemory)}
}

func (card Card) fabricXML() element {
	if card.Fabric == nil || card.Fabric.State == 0 {
		return tag("fabric", leaf("state", "N/A"), leaf("status", "N/A"))
	}
	state := []string{"", "Not Started", "In Progress", "Completed"}[card.Fabric.State]
	if card.Fabric.State != 3 {
		return tag("fabric", leaf("state", "%s", state), leaf("status", "N/A"))
	}
	status := "Success"
	if card.Fabric.Status != 0 {
		status = "Insufficient Resources"
	}
	return tag("fabric", leaf("state", "%s", state), leaf("status", "%s", status),
		leaf("cliqueId", "%d", card.Fabric.Clique), leaf("clusterUuid", "%s", card.Fabric.Cluster))
}

func (card Card) processesXML() element {
	if len(card.Processes) == 0 {
		return leaf("processes", "")
	}
	all := tag("processes")
	for _, process := range card.Processes {
		all.children = append(all.children, tag("process_info",
			leaf("gpu_instance_id", "N/A"), leaf("compute_instance_id", "N/A"), leaf("pid", "%d", process.PID),
			leaf("type", "%s", map[string]string{"compute": "C", "graphics": "G", "mps": "M+C"}[process.Kind]),
			leaf("process_name", "%s", process.Name), leaf("used_memory", "%d MiB", process.Memory/miB)))
	}
	return all
}

func enabled(set bool) string { return map[bool]string{true: "Enabled", false: "Disabled"}[set] }

func yes(set bool) string { return map[bool]string{true: "Yes", false: "No"}[set] }

func title(word string) string {
	if word == "" {
		return ""
	}
	return strings.ToUpper(word[:1]) + word[1:]
}
