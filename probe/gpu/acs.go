// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"

	"preflight/facts"
	"preflight/probe/machine"
)

// iommu is how the kernel has devices addressed: of the GPUs, or of all devices
// where theirs do not show. The words are those of its groups' default domains
// (Linux, drivers/iommu/iommu.c, iommu_group_show_type).
func iommu(o machine.Options, gpus []facts.PCIGPU) string {
	const groups = "/sys/kernel/iommu_groups"
	var types []string
	for _, gpu := range gpus {
		if kind := machine.Line(o.At(filepath.Join(pciDevices, gpu.Address, "iommu_group/type"))); kind != "" {
			types = append(types, kind)
		}
	}
	if types == nil {
		entries, err := os.ReadDir(o.At(groups))
		if err == nil && len(entries) == 0 || err != nil && machine.Exists(o.At("/sys/kernel")) {
			return "off" // the kernel makes groups as soon as there is one
		}
		for _, entry := range entries {
			types = append(types, machine.Line(o.At(filepath.Join(groups, entry.Name(), "type"))))
		}
	}
	switch {
	case slices.Contains(types, "DMA"), slices.Contains(types, "DMA-FQ"):
		return "translated"
	case slices.Contains(types, "identity"):
		return "passthrough"
	}
	return "" // an old kernel, or devices that were given to virtual machines
}

// redirectingBridges are the ports of PCIe switches above GPUs and RDMA adapters
// that send what these say to each other up to the root complex; nil when one may
// not be read. A root port is no such detour: whatever comes to it is there.
func redirectingBridges(o machine.Options, gpus []facts.PCIGPU) []string {
	if gpus == nil {
		return nil // the bus does not show
	}
	var ways [][]string
	for _, gpu := range gpus {
		ways = append(ways, gpu.Path)
	}
	adapters, _ := filepath.Glob(o.At("/sys/class/infiniband/*/device")) // the pattern is sound
	for _, adapter := range adapters {
		ways = append(ways, machine.PCIPath(adapter))
	}
	redirecting, looked := []string{}, map[string]bool{}
	for _, way := range ways {
		for i := 1; i < len(way)-1; i++ {
			bridge := way[i]
			if looked[bridge] || machine.PCIRoot.MatchString(bridge) || machine.PCIRoot.MatchString(way[i-1]) {
				continue
			}
			looked[bridge] = true
			redirects, readable := redirects(o.At(filepath.Join(pciDevices, bridge, "config")))
			if !readable {
				return nil
			}
			if redirects {
				redirecting = append(redirecting, bridge)
			}
		}
	}
	slices.Sort(redirecting)
	return redirecting
}

// Of the extended capabilities of a PCI Express function (PCI Express Base
// Specification, 7.6.3 and 7.7.8; Linux, include/uapi/linux/pci_regs.h).
const (
	extendedConfig = 0x100 // where their list begins, behind what plain PCI has
	acsCapability  = 0x0d
	acsControl     = 6 // a word, from the capability on
	// acsRedirects are P2P Request Redirect, P2P Completion Redirect and P2P Egress
	// Control, any of which Linux takes for a detour (drivers/pci/p2pdma.c,
	// pci_bridge_has_acs_redir). NCCL's troubleshooting guide looks for Source
	// Validation instead, which firmware and kernel set along with them.
	acsRedirects = 1<<2 | 1<<3 | 1<<5
)

// redirects reads a bridge's access control. It is not readable for who is not
// root of the machine: sysfs then ends after 64 bytes.
func redirects(config string) (set, readable bool) {
	f, err := os.Open(config)
	if err != nil {
		return false, false
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() <= extendedConfig {
		return false, true // a bridge of plain PCI
	}
	var word [4]byte
	read := func(at int64) (uint32, bool) {
		n, _ := f.ReadAt(word[:], at) // fewer bytes say it all
		return binary.LittleEndian.Uint32(word[:]), n == len(word)
	}
	const most = 0x1000 / 8 // capabilities are 8 bytes at least; a longer list is a circle
	at := int64(extendedConfig)
	for range most {
		head, ok := read(at)
		if !ok {
			return false, false
		}
		if head&0xffff == acsCapability {
			control, ok := read(at + acsControl - 2)
			return control>>16&acsRedirects != 0, ok
		}
		if at = int64(head >> 20 & 0xffc); at < extendedConfig {
			return false, true
		}
	}
	return false, false
}
