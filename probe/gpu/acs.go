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

// iommu returns how the kernel translates device addresses. It reads this for the GPUs, or for all
// devices if the GPUs' groups are not visible. The result is based on the types of the groups'
// default domains (Linux, drivers/iommu/iommu.c, iommu_group_show_type).
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
			return "off" // the kernel creates groups as soon as there is an IOMMU
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
	return "" // an old kernel, or all devices were passed to virtual machines
}

// redirectingBridges returns the ports of PCIe switches above GPUs and RDMA adapters that redirect
// peer-to-peer traffic to the root complex. It returns nil if one of them cannot be read. Root
// ports are left out, because their traffic is at the root complex already.
func redirectingBridges(o machine.Options, gpus []facts.PCIGPU) []string {
	if gpus == nil {
		return nil // the bus is not visible
	}
	var ways [][]string
	for _, gpu := range gpus {
		ways = append(ways, gpu.Path)
	}
	adapters, _ := filepath.Glob(o.At("/sys/class/infiniband/*/device")) // the pattern is valid
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

// These are extended capabilities of a PCI Express function (PCI Express Base Specification, 7.6.3
// and 7.7.8; Linux, include/uapi/linux/pci_regs.h).
const (
	extendedConfig = 0x100 // start of the capability list, after plain PCI's configuration space
	acsCapability  = 0x0d
	acsControl     = 6 // offset of a 16-bit word in the capability
	// acsRedirects combines P2P Request Redirect, P2P Completion Redirect and P2P Egress Control.
	// Linux treats each of them as a detour (drivers/pci/p2pdma.c, pci_bridge_has_acs_redir).
	// NCCL's troubleshooting guide checks Source Validation instead, which firmware and kernel set
	// together with these three.
	acsRedirects = 1<<2 | 1<<3 | 1<<5
)

// redirects reads a bridge's access control. Only the machine's root user may read it: for other
// users the sysfs file ends after 64 bytes.
func redirects(config string) (set, readable bool) {
	f, err := os.Open(config)
	if err != nil {
		return false, false
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() <= extendedConfig {
		return false, true // a plain PCI bridge
	}
	var word [4]byte
	read := func(at int64) (uint32, bool) {
		n, _ := f.ReadAt(word[:], at) // the second result reports a short read
		return binary.LittleEndian.Uint32(word[:]), n == len(word)
	}
	const most = 0x1000 / 8 // capabilities have at least 8 bytes; a longer list is a cycle
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
