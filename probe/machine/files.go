// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"preflight/internal/hostsys"
	"preflight/internal/lazyregexp"
)

// Line returns the first line of a small kernel file without surrounding space. It returns "" if
// the file is absent, unreadable or empty.
func Line(path string) string {
	text, err := hostsys.ReadFile(path)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(first)
}

// Number returns the decimal integer in a small kernel file. It returns false if the file has no
// integer, for example if it contains "max".
func Number(path string) (int64, bool) {
	n, err := strconv.ParseInt(Line(path), 10, 64)
	return n, err == nil
}

// Exists reports whether a path exists and this user may see it.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

var (
	// PCIRoot matches a root of the PCI bus, such as "pci0000:3a". A disk controller (Intel's VMD)
	// creates domains with five digits below its own device.
	PCIRoot = lazyregexp.New(`^pci[0-9a-f]{4,8}:[0-9a-f]{2}$`)
	// PCIAddress matches a function on the bus, such as "0000:4e:00.0".
	PCIAddress = lazyregexp.New(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
)

// PCIPath returns the addresses on the way from the root complex to a device, with the device
// itself last. dir is the device's directory in sysfs under any of its names
// (/sys/bus/pci/devices/0000:4e:00.0, /sys/class/infiniband/mlx5_0/device). The result is nil for a
// device that is not on a PCI bus. For a device below a PCI function, such as a subfunction of an
// adapter, it ends with that function.
func PCIPath(dir string) []string {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil
	}
	var way []string
	for part := range strings.SplitSeq(filepath.ToSlash(real), "/") {
		if PCIRoot.MatchString(part) || len(way) > 0 && PCIAddress.MatchString(part) {
			way = append(way, part)
		}
	}
	return way
}

// Driver returns the kernel driver of a device, or "" if it has none. dir is the device's directory
// in sysfs.
func Driver(dir string) string {
	driver, err := os.Readlink(filepath.Join(dir, "driver"))
	if err != nil {
		return ""
	}
	return filepath.Base(driver)
}

// NUMANode returns the NUMA node near a device, -1 if the kernel does not report it.
func NUMANode(dir string) int {
	if node, known := Number(filepath.Join(dir, "numa_node")); known {
		return int(node)
	}
	return -1
}

// ReadDir lists a directory, sorted by name. If the directory has more than most entries, it
// returns the first entries that the file system gives.
func ReadDir(path string, most int) ([]os.DirEntry, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(most)
	if err != nil && !errors.Is(err, io.EOF) { // for an empty directory, the error is EOF
		return nil, err
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// These are the fixed inode numbers of the initial namespaces (Linux, include/uapi/linux/nsfs.h;
// include/linux/proc_ns.h before 6.18).
const (
	InitialIPC = "ipc:[4026531839]"
	InitialUTS = "uts:[4026531838]"
	InitialPID = "pid:[4026531836]"
)

// Reason returns the system's message for an error. It leaves out the path, because the report
// shows the path anyway.
func Reason(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err.Error()
	}
	return err.Error()
}

// BrokenLink returns the target of a dangling link, or "" if the path is not a link.
func BrokenLink(path string) string {
	if target, err := os.Readlink(path); err == nil {
		return fmt.Sprintf("symbolic link to %s, which does not exist", target)
	}
	return ""
}

// Clipped returns a line without surrounding space, shortened for a report.
func Clipped(line string) string {
	const most = 300
	line = strings.ToValidUTF8(strings.TrimSpace(line), "?")
	return strings.ToValidUTF8(line[:min(most, len(line))], "")
}

// After returns the text after a prefix in the first line that begins with the prefix, without
// surrounding space. It returns false if no line begins with the prefix.
func After(text, prefix string) (string, bool) {
	for line := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(line, prefix); found {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}

// FirstWord returns the first word of a text, or "" if the text has no words.
func FirstWord(text string) string {
	if words := strings.Fields(text); len(words) > 0 {
		return words[0]
	}
	return ""
}

// PCIe is a PCI Express link. It is the zero value if the kernel does not report the link.
type PCIe struct {
	Speed float64 // in GT/s per lane
	Lanes int
}

func (l PCIe) isKnown() bool { return l.Speed > 0 && l.Lanes > 0 }

func (l PCIe) String() string {
	if !l.isKnown() {
		return ""
	}
	return fmt.Sprintf("%.1f GT/s PCIe x%d", l.Speed, l.Lanes)
}

// PCIeLinks returns the current link of a device, and the best link that both the device and its
// slot support, as NCCL computes it (NVIDIA/nccl 2.30, graph/xml.cc, ncclTopoGetXmlFromSys). If a
// slot reports less than the current link, a hypervisor has made up the slot's value. Virtual
// functions report no link.
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

// readPCIe reads a speed such as "16.0 GT/s PCIe" (before Linux 5.7 "16 GT/s"), and a width such as
// "16". If the kernel does not know them, the speed is "Unknown" and the width is 0, or 255 for all
// bits set.
func readPCIe(dir, which string) PCIe {
	number, _, _ := strings.Cut(Line(dir+"/"+which+"_link_speed"), " ")
	speed, _ := strconv.ParseFloat(number, 64) // 0 for text that is not a number
	lanes, _ := strconv.Atoi(Line(dir + "/" + which + "_link_width"))
	if lanes > 32 {
		return PCIe{}
	}
	return PCIe{speed, lanes}
}
