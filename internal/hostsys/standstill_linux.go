// SPDX-License-Identifier: Apache-2.0

package hostsys

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is the time since this machine was started, in which it may have slept: Go's
// own clock, CLOCK_MONOTONIC, stands still meanwhile (clock_gettime(2)).
func sinceBoot() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return time.Since(started)
	}
	return time.Duration(now.Nano())
}
