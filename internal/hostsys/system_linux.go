// SPDX-License-Identifier: Apache-2.0

package hostsys

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot returns the time since the machine started, including sleep. Go's own clock,
// CLOCK_MONOTONIC, stops during sleep (clock_gettime(2)).
func sinceBoot() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return time.Since(started)
	}
	return time.Duration(now.Nano())
}

// active returns how long the threads of this process have run or waited for a processor, in total
// (Documentation/scheduler/sched-stats.rst). A kernel without CONFIG_SCHED_INFO counts neither
// time. It is then unknown whether the process was stopped, and the process counts as always
// active.
func active() (all time.Duration) {
	threads, _ := os.ReadDir("/proc/self/task") // empty if /proc is not mounted
	for _, thread := range threads {
		text, _ := ReadFile("/proc/self/task/" + thread.Name() + "/schedstat") // empty if the thread has ended
		for i, number := range strings.Fields(string(text)) {
			if nanoseconds, err := strconv.ParseInt(number, 10, 64); err == nil && i < 2 {
				all += time.Duration(nanoseconds)
			}
		}
	}
	if all == 0 {
		return time.Since(started)
	}
	return all
}

func dieWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// holder returns the process that listens at the other end of a connection.
func holder(call net.Conn) *Taken {
	raw, err := call.(syscall.Conn).SyscallConn()
	if err != nil {
		return &Taken{}
	}
	taken := &Taken{}
	_ = raw.Control(func(fd uintptr) { // for an open socket of this family, the kernel always reports the peer
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			taken.PID, taken.UID = int(peer.Pid), int(peer.Uid)
		}
	})
	return taken
}

// EachMapped calls each with the inode of every file of a device that a process has mapped. process
// is the process's directory in /proc.
func EachMapped(process string, device uint64, each func(inode uint64)) error {
	file, err := os.Open(filepath.Join(process, "maps"))
	if err != nil {
		return err
	}
	defer file.Close()
	// Most mappings are libraries. Comparing the device first avoids parsing them.
	mark := fmt.Appendf(nil, " %02x:%02x ", unix.Major(device), unix.Minor(device))
	rows := bufio.NewScanner(file)
	for rows.Scan() {
		if !bytes.Contains(rows.Bytes(), mark) {
			continue
		}
		// 7f0-7f1 rw-s 00000000 00:17 42    /dev/shm/nccl-x
		if fields := strings.Fields(rows.Text()); len(fields) >= 6 {
			if inode, err := strconv.ParseUint(fields[4], 10, 64); err == nil {
				each(inode)
			}
		}
	}
	return rows.Err()
}
