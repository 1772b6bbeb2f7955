package probe

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// pcieLink is a link of the PCI Express.
type pcieLink struct {
	speed float64 // GT/s of one lane
	lanes int
}

func (l pcieLink) isTold() bool { return l.speed > 0 && l.lanes > 0 }

func (l pcieLink) String() string {
	if !l.isTold() {
		return ""
	}
	return fmt.Sprintf("%.1f GT/s PCIe x%d", l.speed, l.lanes)
}

// pcieLinks is what a device's link runs at and what device and slot could: the less
// of both, as NCCL has it (NVIDIA/nccl 2.30, graph/xml.cc, ncclTopoGetXmlFromSys). A
// slot that says less than what runs is a hypervisor's stand-in for one. Virtual
// functions tell of no link.
func pcieLinks(device string) (now, most string) {
	real, err := filepath.EvalSymlinks(device)
	if err != nil {
		return "", ""
	}
	current := readPCIeLink(real, "current")
	best, slot := readPCIeLink(real, "max"), readPCIeLink(filepath.Dir(real), "max")
	if slot.isTold() && slot.speed >= current.speed && slot.lanes >= current.lanes {
		best = pcieLink{min(best.speed, slot.speed), min(best.lanes, slot.lanes)}
	}
	return current.String(), best.String()
}

// readPCIeLink reads "16.0 GT/s PCIe", which before Linux 5.7 is "16 GT/s", and "16".
// What the kernel does not know is "Unknown" and 0, or 255 for all bits set.
func readPCIeLink(dir, which string) pcieLink {
	number, _, _ := strings.Cut(line(dir+"/"+which+"_link_speed"), " ")
	speed, _ := strconv.ParseFloat(number, 64) // 0 for what is no number
	lanes, _ := strconv.Atoi(line(dir + "/" + which + "_link_width"))
	if lanes > 32 {
		return pcieLink{}
	}
	return pcieLink{speed, lanes}
}
