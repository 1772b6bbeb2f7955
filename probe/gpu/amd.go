// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/probe/machine"
)

// These are the places where the kernel shows AMD's GPUs: the compute device, its nodes, its
// processes, and the driver.
const (
	kfdDevice    = "/dev/kfd" // one device for all GPUs
	kfdNodesDir  = "/sys/class/kfd/kfd/topology/nodes"
	kfdProcesses = "/sys/class/kfd/kfd/proc"
	amdModule    = "/sys/module/amdgpu"
)

// showsAMD reports whether the machine has an AMD GPU that computes, or that could compute.
func showsAMD(o machine.Options) bool {
	return len(kfdGPUs(o)) > 0 || len(amdOnBus(o, nil)) > 0
}

// amdGPU adds what the kernel and the file system show about AMD's GPUs.
func amdGPU(o machine.Options, gpu *facts.GPU) {
	nodes := kfdGPUs(o)
	gpu.Devices = renderNodes(nodes)
	if machine.Exists(o.At(amdModule)) {
		held, _ := filepath.Glob(o.At(amdModule + "/drivers/pci:amdgpu/*:*:*.*")) // fails only on a bad pattern
		gpu.Driver = []string{}
		for _, device := range held {
			gpu.Driver = append(gpu.Driver, filepath.Base(device))
		}
	}
	gpu.OnBus = amdOnBus(o, nodes)
	gpu.ROCm = machine.Line(o.At("/opt/rocm/.info/version"))
	// These devices are not opened, because the driver would then set up a process.
	for _, path := range append([]string{kfdDevice}, gpu.Devices...) {
		gpu.Doors = append(gpu.Doors, deviceNode(path, access(o.At(path))))
	}
}

// kfdNode is a GPU in the topology of AMD's compute driver. A partitioned card has several nodes.
type kfdNode struct {
	number     int
	id         string // identifies the GPU in the list of a process's GPUs
	dir        string
	properties string
	device     string // the card's directory in /sys
}

// kfdGPUs returns the compute nodes in HIP's order. It leaves out CPUs, which have no SIMD units.
// In a container, the node of a GPU that the container was not given cannot be read.
//
// Source: Linux 6.12, drivers/gpu/drm/amd/amdkfd/kfd_topology.c, node_show; ROCm/ROCR-Runtime 6.2,
// libhsakmt/src/topology.c.
func kfdGPUs(o machine.Options) (nodes []kfdNode) {
	entries, _ := os.ReadDir(o.At(kfdNodesDir)) // none if the driver is not loaded
	for _, entry := range entries {
		number, err := strconv.Atoi(entry.Name())
		dir := o.At(filepath.Join(kfdNodesDir, entry.Name()))
		properties, unread := hostsys.ReadFile(dir + "/properties")
		if err != nil || unread != nil {
			continue
		}
		node := kfdNode{number: number, id: machine.Line(dir + "/gpu_id"), dir: dir, properties: string(properties)}
		if node.property("simd_count") > 0 {
			node.device = o.At(filepath.Join(pciDevices, node.address(o)))
			if !isGraphics(node.device) {
				nodes = append(nodes, node)
			}
		}
	}
	slices.SortFunc(nodes, func(a, b kfdNode) int { return cmp.Compare(a.number, b.number) })
	return nodes
}

// isGraphics reports whether a GPU, such as a CPU's integrated graphics, has less memory than any
// GPU used for training. The compute driver also lists such GPUs, and torch rightly ignores them.
func isGraphics(device string) bool {
	total, known := machine.Number(device + "/mem_info_vram_total")
	return known && total < 4<<30
}

// property returns the value of a property, or 0 if it is not set. Some values use all 64 bits.
func (n kfdNode) property(name string) uint64 {
	text, _ := machine.After(n.properties, name+" ")
	value, _ := strconv.ParseUint(text, 10, 64)
	return value
}

// address returns the card's PCI address. For a partition, the function number in the address is
// the partition's number, although only the first function exists on the bus (kfd_topology.c,
// kfd_topology_add_device).
func (n kfdNode) address(o machine.Options) string {
	location := n.property("location_id")
	slot := fmt.Sprintf("%04x:%02x:%02x.", n.property("domain"), location>>8&0xff, location>>3&0x1f)
	if own := fmt.Sprint(slot, location&7); machine.Exists(o.At(filepath.Join(pciDevices, own))) {
		return own
	}
	return slot + "0"
}

func renderNodes(nodes []kfdNode) []string {
	paths := []string{}
	for _, node := range nodes {
		if minor := node.property("drm_render_minor"); minor > 0 {
			paths = append(paths, fmt.Sprintf("/dev/dri/renderD%d", minor))
		}
	}
	return paths
}

// amdOnBus returns the accelerators on the PCI bus, and all other AMD devices that compute. amdgpu
// handles several classes of devices (Linux 6.12, amdgpu_drv.c, pciidlist). One of them, VGA, is
// also the class of any board's console.
func amdOnBus(o machine.Options, nodes []kfdNode) []facts.PCIGPU {
	entries, err := os.ReadDir(o.At(pciDevices))
	if err != nil {
		return nil
	}
	gpus := []facts.PCIGPU{}
	for _, entry := range entries {
		dir := filepath.Join(o.At(pciDevices), entry.Name())
		if machine.Line(dir+"/vendor") != "0x1002" || isGraphics(dir) {
			continue
		}
		class := machine.Line(dir + "/class")
		computes := slices.ContainsFunc(nodes, func(n kfdNode) bool { return n.device == dir })
		if computes || strings.HasPrefix(class, "0x0380") || strings.HasPrefix(class, "0x1200") {
			gpus = append(gpus, pciGPU(dir))
		}
	}
	return gpus
}

// amdCards returns what amdgpu reports about itself and its GPUs.
func amdCards(o machine.Options) *facts.NVML {
	seen := &facts.NVML{Source: facts.SourceAMD, Asked: true, Cards: []facts.Card{}}
	if !machine.Exists(o.At(amdModule)) {
		seen.Failure = &facts.NVMLFailure{Kind: facts.FailureNoDriver, Text: "the kernel module amdgpu is not loaded"}
		return seen
	}
	// If the module has no version, the kernel's version is used (ROCm/rocm_smi_lib 6.2,
	// rocm_smi.cc, rsmi_version_str_get).
	seen.Driver = cmp.Or(machine.Line(o.At(amdModule+"/version")), machine.Line(o.At("/proc/sys/kernel/osrelease")))
	nodes := kfdGPUs(o)
	if len(nodes) == 0 {
		seen.Failure = &facts.NVMLFailure{Kind: facts.FailureNotFound, Text: "no entry of " + kfdNodesDir + " that this session may read is a GPU"}
		return seen
	}
	for i, node := range nodes {
		card := amdCard(node)
		card.Index = i
		card.NVLinks = xgmiLinks(node, nodes)
		seen.Cards = append(seen.Cards, card)
	}
	shareMemory(seen.Cards)
	kfdUsers(o, nodes, seen.Cards)
	nameProcesses(o, seen.Cards)
	return seen
}

// amdCard reads one GPU from the files in its device directory.
//
// Source: Linux 6.12, Documentation/gpu/amdgpu/driver-misc.rst and amdgpu_pm.c.
func amdCard(node kfdNode) facts.Card {
	dir := node.device
	target := node.property("gfx_target_version")
	card := facts.Card{
		Name:     cmp.Or(machine.Line(dir+"/product_name"), "AMD "+machine.Line(dir+"/device")),
		Serial:   machine.Line(dir + "/serial_number"),
		VBIOS:    machine.Line(dir + "/vbios_version"),
		Firmware: amdFirmware(dir),
		Target:   fmt.Sprintf("gfx%d%x%x", target/10000, target/100%100, target%100),
		Address:  filepath.Base(dir),
		NUMANode: new(machine.NUMANode(dir)),
		CPUs:     machine.Line(dir + "/local_cpulist"),
		Link:     amdLink(dir),
	}
	card.ECC, card.Refused = rasErrors(dir)
	if unique := node.property("unique_id"); unique != 0 { // in ROCr's format: amd_gpu_agent.cpp, HSA_AMD_AGENT_INFO_UUID
		card.UUID = fmt.Sprintf("GPU-%016x", unique)
	}
	if minor := int(node.property("drm_render_minor")); minor > 0 {
		card.Minor = &minor
	}
	card.Memory, _ = machine.Number(dir + "/mem_info_vram_total") // 0 if not reported
	if used, known := machine.Number(dir + "/mem_info_vram_used"); known {
		card.MemoryUsed = &used
	}
	return card
}

// shareMemory gives each partition of a card an equal part of the card's memory. The used memory is
// known only for the whole card.
func shareMemory(cards []facts.Card) {
	parts := map[string]int64{}
	for i := range cards {
		parts[cards[i].Address]++
	}
	for i := range cards {
		if n := parts[cards[i].Address]; n > 1 {
			cards[i].Memory /= n
			cards[i].MemoryUsed = nil
		}
	}
}

// amdFirmware maps the parts of a GPU to their firmware versions. The file
// fw_version/mec_fw_version belongs to the part "mec". The version of a part that the GPU does not
// have is 0 (Linux 6.12, amdgpu_ucode.c, FW_VERSION_ATTR).
func amdFirmware(dir string) map[string]string {
	files, _ := filepath.Glob(dir + "/fw_version/*_fw_version") // fails only on a bad pattern
	versions := map[string]string{}
	for _, file := range files {
		if version := machine.Line(file); version != "" && version != "0x00000000" {
			versions[strings.TrimSuffix(filepath.Base(file), "_fw_version")] = version
		}
	}
	if len(versions) == 0 {
		return nil
	}
	return versions
}

// rasErrors sums the uncorrected and the corrected errors that the parts of a GPU have counted
// since the driver was loaded. It returns nil if the GPU has no counters. It also returns nil if no
// counter can be read, as during a reset.
//
// Source: Linux 6.12, amdgpu_ras.c, amdgpu_ras_sysfs_read: "ue: 0" and "ce: 0", below which newer
// ones have "de: 0", or "Query currently inaccessible".
func rasErrors(dir string) (*facts.ECC, []facts.NVMLFailure) {
	files, _ := filepath.Glob(dir + "/ras/*_err_count") // fails only on a bad pattern
	var uncorrected, corrected int64
	var refused []facts.NVMLFailure
	counted := false
	for _, file := range files {
		text, err := hostsys.ReadFile(file)
		refusal := facts.NVMLFailure{Kind: facts.FailureOther, Call: facts.CallRAS, Text: machine.Clipped(string(text))}
		if err != nil {
			refusal.Text = machine.Reason(err)
		}
		if errors.Is(err, fs.ErrPermission) {
			refusal.Kind = facts.FailureNoPermission
		}
		refused = []facts.NVMLFailure{refusal}
		ue, ueTold := machine.After(string(text), "ue:")
		ce, ceTold := machine.After(string(text), "ce:")
		if ueTold && ceTold {
			counted = true
			uncorrected += count(ue)
			corrected += count(ce)
		}
	}
	if !counted {
		return nil, refused
	}
	return &facts.ECC{Enabled: true, Uncorrected: &uncorrected, Corrected: &corrected}, nil
}

// count parses a number. It returns 0 for text that is not a number.
func count(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// generations maps the speed of a lane in GT/s to the generation of PCIe.
var generations = map[float64]int{2.5: 1, 5: 2, 8: 3, 16: 4, 32: 5, 64: 6}

func amdLink(dir string) facts.PCILink {
	now, most := machine.PCIeLinks(dir)
	return facts.PCILink{Generation: generations[now.Speed], MaxGeneration: generations[most.Speed], Width: now.Lanes, MaxWidth: most.Lanes}
}

// xgmi is the type of an XGMI link between GPUs, or between a GPU and a CPU that has it (Linux
// 6.12, kfd_crat.h, CRAT_IOLINK_TYPE_XGMI).
const xgmi = 11

// xgmiLinks returns a GPU's links to the other cards of its machine. It returns nil if the GPU is
// on the only card. The driver lists existing links, with speeds in MB/s (kfd_crat.c,
// kfd_fill_gpu_xgmi_link_to_gpu).
func xgmiLinks(node kfdNode, all []kfdNode) *facts.NVLinks {
	speed := map[int]int64{} // speeds of the existing links, by the node at the other end
	files, _ := filepath.Glob(node.dir + "/io_links/*/properties")
	for _, file := range files {
		text, err := hostsys.ReadFile(file)
		if err != nil {
			continue
		}
		link := kfdNode{properties: string(text)}
		if link.property("type") == xgmi {
			speed[int(link.property("node_to"))] = int64(link.property("max_bandwidth")) * 8e6
		}
	}
	links := &facts.NVLinks{RemoteKind: "gpu"}
	for i, other := range all {
		if other.device == node.device {
			continue
		}
		links.Count++
		links.Remotes = append(links.Remotes, filepath.Base(other.device))
		if rate, there := speed[other.number]; there {
			links.Speed = max(links.Speed, rate)
		} else {
			links.Down = append(links.Down, i)
		}
	}
	if links.Count == 0 {
		return nil
	}
	return links
}

// kfdUsers adds the processes that compute and have memory on a GPU. For every such process the
// driver lists every GPU.
//
// Source: Linux 6.12, amdkfd/kfd_process.c, kfd_procfs_show: proc/PID/vram_GPUID, in bytes.
func kfdUsers(o machine.Options, nodes []kfdNode, cards []facts.Card) {
	entries, err := os.ReadDir(o.At(kfdProcesses))
	if err != nil {
		return // before Linux 5.9 the driver does not report processes
	}
	for i, node := range nodes {
		cards[i].Processes = []facts.GPUUser{}
		for _, entry := range entries {
			pid, err := strconv.Atoi(entry.Name())
			used, known := machine.Number(filepath.Join(o.At(kfdProcesses), entry.Name(), "vram_"+node.id))
			if err == nil && known && used > 0 {
				cards[i].Processes = append(cards[i].Processes, facts.GPUUser{PID: pid, Kind: "compute", Memory: &used})
			}
		}
	}
}
