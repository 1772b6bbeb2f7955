// SPDX-License-Identifier: Apache-2.0

// Package host reads facts about the machine as an operating system: its identity, the limits of a
// process, its memory, disks and shared memory. The package does not know what the launch needs.
// Whether a limit is too low is for the checks to decide.
package host

import (
	"time"
)

// These are the time limits of sections whose parts have separate limits.
const (
	DiskLimit = 3 * time.Second
	SHMLimit  = 3 * time.Second
)
