package probe

import (
	"path/filepath"
	"regexp"
	"strings"
)

var (
	// A root of the PCI bus, "pci0000:3a". Domains of five digits are those that
	// a disk controller (Intel's VMD) opens below a device of its own.
	pciRoot = regexp.MustCompile(`^pci[0-9a-f]{4,8}:[0-9a-f]{2}$`)
	// A function on it, "0000:4e:00.0".
	pciAddress = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
)

// pciPath is the way from the root complex to a device, by address, the device
// itself last. It takes the device's directory in sysfs under any of its names
// (/sys/bus/pci/devices/0000:4e:00.0, /sys/class/infiniband/mlx5_0/device) and is
// nil for one that is not on a PCI bus. What lies below a PCI function, such as a
// subfunction of an adapter, has the way of that function.
func pciPath(dir string) []string {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil
	}
	var way []string
	for part := range strings.SplitSeq(filepath.ToSlash(real), "/") {
		if pciRoot.MatchString(part) || len(way) > 0 && pciAddress.MatchString(part) {
			way = append(way, part)
		}
	}
	return way
}
