// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// PCIe is a link of the PCI Express, the zero value where the kernel does not tell.
type PCIe struct {
	Speed float64 // GT/s of one lane
	Lanes int
}

func (l PCIe) isKnown() bool { return l.Speed > 0 && l.Lanes > 0 }

func (l PCIe) String() string {
	if !l.isKnown() {
		return ""
	}
	return fmt.Sprintf("%.1f GT/s PCIe x%d", l.Speed, l.Lanes)
}

// PCIeLinks is what a device's link runs at and what device and slot could: the less
// of both, as NCCL has it (NVIDIA/nccl 2.30, graph/xml.cc, ncclTopoGetXmlFromSys). A
// slot that says less than what runs is a hypervisor's stand-in for one. Virtual
// functions tell of no link.
func PCIeLinks(device string) (now, most PCIe) {
	real, err := filepath.EvalSymlinks(device)
	if err != nil {
		return PCIe{}, PCIe{}
	}
	now, most = readPCIe(real, "current"), readPCIe(real, "max")
	slot := readPCIe(filepath.Dir(real), "max")
	if slot.isKnown() && slot.Speed >= now.Speed && slot.Lanes >= now.Lanes {
		most = PCIe{min(most.Speed, slot.Speed), min(most.Lanes, slot.Lanes)}
	}
	return now, most
}

// readPCIe reads "16.0 GT/s PCIe", which before Linux 5.7 is "16 GT/s", and "16".
// What the kernel does not know is "Unknown" and 0, or 255 for all bits set.
func readPCIe(dir, which string) PCIe {
	number, _, _ := strings.Cut(Line(dir+"/"+which+"_link_speed"), " ")
	speed, _ := strconv.ParseFloat(number, 64) // 0 for what is no number
	lanes, _ := strconv.Atoi(Line(dir + "/" + which + "_link_width"))
	if lanes > 32 {
		return PCIe{}
	}
	return PCIe{speed, lanes}
}
