// SPDX-License-Identifier: Apache-2.0

// Package host reads the machine as an operating system: its identity, the limits of a process, its
// memory, disks and shared memory. It does not know what the launch needs: whether a limit is too
// low is for the checks.
package host

import (
	"time"
)

// The time limits of sections whose parts have limits of their own.
const (
	DiskLimit = 3 * time.Second
	SHMLimit  = 3 * time.Second
)
