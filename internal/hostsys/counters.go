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

// portErrors lists counters of an RDMA port that do not change on a healthy link under any traffic.
// It leaves out counters that adaptive routing and congestion change, such as out_of_sequence.
//
// Source: Linux 6.8, Documentation/ABI/stable/sysfs-class-infiniband; NVIDIA, MLNX_OFED,
// Understanding mlx5 Linux counters.
var portErrors = []string{
	"counters/symbol_error", "counters/link_error_recovery", "counters/link_downed", "counters/port_rcv_errors", "counters/local_link_integrity_errors",
	"hw_counters/local_ack_timeout_err", "hw_counters/rnr_nak_retry_err", "hw_counters/rx_icrc_encapsulated",
}

// interfaceErrors lists counters of a network interface that do not change on a healthy link.
//
// Source: Linux 6.8, Documentation/ABI/testing/sysfs-class-net and -statistics.
var interfaceErrors = []string{"carrier_changes", "statistics/rx_crc_errors"}

// LinkCounters returns the errors that a machine's links have counted since they came up. The keys
// name the link and the counter: "mlx5_0:1 symbol_error", "eth0 carrier_changes", "0000:4e:00.0
// aer_fatal". Counters at zero are left out. The result is nil if sysfs is missing. Every user may
// read the counters. root is the root directory of the machine's file system: "/".
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
	for _, hardware := range glob(root, "sys/class/net/*/device") { // software interfaces have no device
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

// isNVIDIA reports whether a PCI device, such as a GPU, a switch or an adapter, is made by NVIDIA
// or Mellanox.
func isNVIDIA(device string) bool {
	vendor, _ := ReadFile(filepath.Join(device, "vendor")) // if the file is missing, the result is false
	text := strings.TrimSpace(string(vendor))
	return text == "0x10de" || text == "0x15b3"
}

// pcieErrors returns the sum of a device's PCI Express errors. It leaves out unsupported requests,
// which the search for devices causes on every device.
//
// Source: Linux 6.8, Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats: "DLP 0".
func pcieErrors(file string) (sum int64) {
	text, _ := ReadFile(file) // older kernels do not have it
	for line := range strings.Lines(string(text)) {
		name, count, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseInt(count, 10, 64); err == nil && name != "UnsupReq" && !strings.HasPrefix(name, "TOTAL") {
			sum += n
		}
	}
	return sum
}

func glob(root, pattern string) []string {
	found, _ := filepath.Glob(filepath.Join(root, pattern)) // never fails, because the pattern is valid
	return found
}

func number(file string) int64 {
	text, _ := ReadFile(file) // the file is missing if the driver does not have this counter
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n
}

// ReadFile works like [os.ReadFile] for the small files of /proc and /sys. Package os registers
// every file for polling and asks for its length. That takes more than half of the time for such a
// file, and a node has hundreds of them.
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

// again repeats a call for as long as signals interrupt it.
func again(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); err != syscall.EINTR {
			return n, err
		}
	}
}
