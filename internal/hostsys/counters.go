// SPDX-License-Identifier: Apache-2.0

package hostsys

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// portErrors are counters of an RDMA port that stand still on a sound link, whatever passes. What
// adaptive routing and congestion move, as out_of_sequence, is none of them.
//
// Source: Linux 6.8, Documentation/ABI/stable/sysfs-class-infiniband; NVIDIA, MLNX_OFED,
// Understanding mlx5 Linux counters.
var portErrors = []string{
	"counters/symbol_error", "counters/link_error_recovery", "counters/link_downed", "counters/port_rcv_errors", "counters/local_link_integrity_errors",
	"hw_counters/local_ack_timeout_err", "hw_counters/rnr_nak_retry_err", "hw_counters/rx_icrc_encapsulated",
}

// interfaceErrors are those of a network interface.
//
// Source: Linux 6.8, Documentation/ABI/testing/sysfs-class-net and -statistics.
var interfaceErrors = []string{"carrier_changes", "statistics/rx_crc_errors"}

// LinkCounters are the errors that a machine's links have counted since they came up, by what
// and where: "mlx5_0:1 symbol_error", "eth0 carrier_changes", "0000:4e:00.0 aer_fatal". Those
// at zero are left out; nil where sysfs does not show. Everybody may read them. root is where
// the machine's file system is: "/".
func LinkCounters(root string) map[string]int64 {
	if _, err := os.Stat(filepath.Join(root, "sys/class/net")); err != nil {
		return nil
	}
	found := map[string]int64{}
	add := func(where, file string) {
		if count := number(file); count > 0 {
			found[where+" "+filepath.Base(file)] = count
		}
	}
	for _, port := range glob(root, "sys/class/infiniband/*/ports/*") {
		where := filepath.Base(filepath.Dir(filepath.Dir(port))) + ":" + filepath.Base(port)
		for _, name := range portErrors {
			add(where, filepath.Join(port, name))
		}
	}
	for _, hardware := range glob(root, "sys/class/net/*/device") { // what is of software has none
		dir := filepath.Dir(hardware)
		for _, name := range interfaceErrors {
			add(filepath.Base(dir), filepath.Join(dir, name))
		}
	}
	for _, file := range glob(root, "sys/bus/pci/devices/*/aer_dev_fatal") {
		dir := filepath.Dir(file)
		if !isNVIDIA(dir) {
			continue
		}
		for _, severity := range []string{"fatal", "nonfatal"} {
			if count := pcieErrors(filepath.Join(dir, "aer_dev_"+severity)); count > 0 {
				found[filepath.Base(dir)+" aer_"+severity] = count
			}
		}
	}
	return found
}

// isNVIDIA is whether a PCI device is a GPU, a switch or an adapter: of NVIDIA or Mellanox.
func isNVIDIA(device string) bool {
	vendor, _ := ReadFile(filepath.Join(device, "vendor")) // none is nobody's
	text := strings.TrimSpace(string(vendor))
	return text == "0x10de" || text == "0x15b3"
}

// pcieErrors sums up what PCI Express reported of a device, without requests that it does not
// support, which looking for devices makes of every one.
//
// Source: Linux 6.8, Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats: "DLP 0".
func pcieErrors(file string) (sum int64) {
	text, _ := ReadFile(file) // older kernels have none
	for line := range strings.Lines(string(text)) {
		name, count, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseInt(count, 10, 64); err == nil && name != "UnsupReq" && !strings.HasPrefix(name, "TOTAL") {
			sum += n
		}
	}
	return sum
}

func glob(root, pattern string) []string {
	found, _ := filepath.Glob(filepath.Join(root, pattern)) // the pattern is sound
	return found
}

func number(file string) int64 {
	text, _ := ReadFile(file) // what a driver does not count is not there
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n
}

// ReadFile is [os.ReadFile] for the small files in which a kernel says something. Package os
// asks of every file it opens to be told when there is more to read, and how long it is:
// more than half of what reading such a file takes, and a node has hundreds read.
func ReadFile(path string) ([]byte, error) {
	file, err := again(func() (int, error) { return syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer syscall.Close(file)
	text := make([]byte, 0, 256)
	for {
		n, err := again(func() (int, error) { return syscall.Read(file, text[len(text):cap(text)]) })
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		if n == 0 {
			return text, nil
		}
		if text = text[:len(text)+n]; len(text) == cap(text) {
			text = append(text, make([]byte, 3*len(text))...)[:len(text)]
		}
	}
}

// again calls until no signal comes between.
func again(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); err != syscall.EINTR {
			return n, err
		}
	}
}
