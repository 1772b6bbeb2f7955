// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// endFamily ends a program and all it has started. pdsh gives every ssh a
// session of its own (src/common/pipecmd.c), so no signal to its group reaches
// them. It is stopped first, so that it starts no more of them meanwhile.
func endFamily(pid int) error {
	if err := syscall.Kill(-pid, syscall.SIGSTOP); err != nil {
		return os.ErrProcessDone
	}
	for _, child := range descendants(pid) {
		if syscall.Kill(-child, syscall.SIGKILL) != nil { // it leads no group
			syscall.Kill(child, syscall.SIGKILL)
		}
	}
	return syscall.Kill(-pid, syscall.SIGKILL)
}

// descendants are the processes that one has started, and those that these have.
func descendants(pid int) []int {
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := map[int][]int{}
	for _, process := range processes {
		id, err := strconv.Atoi(process.Name())
		if err != nil {
			continue
		}
		if parent, err := parentOf(id); err == nil {
			children[parent] = append(children[parent], id)
		}
	}
	found := children[pid]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found
}

// parentOf reads the fourth field of /proc/PID/stat; the second is a name in
// parentheses that may hold anything.
func parentOf(pid int) (int, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	text := string(stat)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 2 {
		return 0, errors.New("no parent")
	}
	return strconv.Atoi(fields[1])
}
