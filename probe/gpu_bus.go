package probe

import (
	"os"
	"path/filepath"
	"strings"

	"preflight/facts"
)

const pciDevices = "/sys/bus/pci/devices"

// nvidiaOnBus are NVIDIA's GPUs on the PCI bus, by address, nil when /sys does not
// show the bus, and the number of its NVSwitches. The sound and USB functions of a
// graphics card are neither. Classes are those of the PCI Code and ID Assignment
// Specification: 0x0300 VGA, 0x0302 3D controller, 0x0680 other bridge.
func nvidiaOnBus(o options) (gpus []facts.PCIGPU, switches int) {
	entries, err := os.ReadDir(o.at(pciDevices))
	if err != nil {
		return nil, 0
	}
	gpus = []facts.PCIGPU{}
	for _, entry := range entries {
		dir := filepath.Join(o.at(pciDevices), entry.Name())
		if line(dir+"/vendor") != "0x10de" {
			continue
		}
		class := line(dir + "/class")
		switch {
		case strings.HasPrefix(class, "0x0300"), strings.HasPrefix(class, "0x0302"):
			gpus = append(gpus, pciGPU(dir))
		case strings.HasPrefix(class, "0x0680"):
			switches++
		}
	}
	return gpus, switches
}

func pciGPU(dir string) facts.PCIGPU {
	gpu := facts.PCIGPU{
		Address:  filepath.Base(dir),
		Device:   line(dir + "/device"),
		NUMANode: -1,
		Path:     pciPath(dir),
	}
	if driver, err := os.Readlink(dir + "/driver"); err == nil {
		gpu.Driver = filepath.Base(driver)
	}
	if node, known := number(dir + "/numa_node"); known {
		gpu.NUMANode = int(node)
	}
	return gpu
}
