// SPDX-License-Identifier: Apache-2.0

package smoke

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// leaveNoCore has a crash leave no file. The process may have ended before, and then it did.
func leaveNoCore(pid int) { _ = unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil) }

// waitsIn is where in the kernel a process waits, ": it waits in nv_open", "" where it does not say.
func waitsIn(pid int) string {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/wchan")
	if where := strings.TrimSpace(string(text)); where != "" && where != "0" {
		return ": it waits in " + clip(where)
	}
	return ""
}
