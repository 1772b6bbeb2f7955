// SPDX-License-Identifier: Apache-2.0

// Package host looks at the machine as an operating system: what it is, what it
// lets a process use, its memory, disks and shared memory. It refuses to know what
// for: that a limit is too low is for the checks.
package host

import (
	"time"
)

// How long the sections may take whose parts have limits of their own.
const (
	DiskLimit = 3 * time.Second
	SHMLimit  = 3 * time.Second
)
