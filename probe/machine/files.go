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

// Line is the first line of a small kernel file without the space around it,
// "" when the file is absent, unreadable or empty.
func Line(path string) string {
	text, err := hostsys.ReadFile(path)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(first)
}

// Number is the decimal integer a small kernel file holds; false when there is
// none, which includes "max".
func Number(path string) (int64, bool) {
	n, err := strconv.ParseInt(Line(path), 10, 64)
	return n, err == nil
}

// Exists is whether something is there that we are allowed to see.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

var (
	// A root of the PCI bus, "pci0000:3a". Domains of five digits are those that
	// a disk controller (Intel's VMD) opens below a device of its own.
	PCIRoot = lazyregexp.New(`^pci[0-9a-f]{4,8}:[0-9a-f]{2}$`)
	// A function on it, "0000:4e:00.0".
	PCIAddress = lazyregexp.New(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
)

// PCIPath is the way from the root complex to a device, by address, the device
// itself last. It takes the device's directory in sysfs under any of its names
// (/sys/bus/pci/devices/0000:4e:00.0, /sys/class/infiniband/mlx5_0/device) and is
// nil for one that is not on a PCI bus. What lies below a PCI function, such as a
// subfunction of an adapter, has the way of that function.
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

// Driver is the kernel driver that is bound to a device, by its directory in sysfs; ""
// for none.
func Driver(dir string) string {
	driver, err := os.Readlink(filepath.Join(dir, "driver"))
	if err != nil {
		return ""
	}
	return filepath.Base(driver)
}

// NUMANode is the one that a device is near, -1 where the kernel does not say.
func NUMANode(dir string) int {
	if node, known := Number(filepath.Join(dir, "numa_node")); known {
		return int(node)
	}
	return -1
}

// ReadDir lists a directory by name. Of one with more than most entries it returns those that the
// file system gives first.
func ReadDir(path string, most int) ([]os.DirEntry, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(most)
	if err != nil && !errors.Is(err, io.EOF) { // which an empty one ends with
		return nil, err
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// The machine's own namespaces have fixed inode numbers (Linux,
// include/uapi/linux/nsfs.h; include/linux/proc_ns.h before 6.18).
const (
	InitialIPC = "ipc:[4026531839]"
	InitialUTS = "uts:[4026531838]"
	InitialPID = "pid:[4026531836]"
)

// Reason is the system's own word for an error, without the path that the
// reader of a report has in front of them anyway.
func Reason(err error) string {
	if path, is := errors.AsType[*fs.PathError](err); is {
		return path.Err.Error()
	}
	return err.Error()
}

// BrokenLink says where a link leads at whose end nothing is, "" for no link.
func BrokenLink(path string) string {
	if target, err := os.Readlink(path); err == nil {
		return fmt.Sprintf("symbolic link to %s, which is not there", target)
	}
	return ""
}

// Clipped is a line without the space around it, no longer than a report takes.
func Clipped(line string) string {
	const most = 300
	line = strings.ToValidUTF8(strings.TrimSpace(line), "?")
	return strings.ToValidUTF8(line[:min(most, len(line))], "")
}

// After is what stands behind a prefix in the first line that begins with it, without
// the space around it; false for no such line.
func After(text, prefix string) (string, bool) {
	for line := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(line, prefix); found {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}

// FirstWord is the text up to its first blank, "" for none.
func FirstWord(text string) string {
	if words := strings.Fields(text); len(words) > 0 {
		return words[0]
	}
	return ""
}

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
