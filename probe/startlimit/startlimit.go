// SPDX-License-Identifier: Apache-2.0

// Package startlimit remembers the open-file limit with which this process was started. Package
// syscall raises the soft limit to the hard limit before main runs (go.dev/issue/46279) and does
// not keep the old value. So a query after that returns a limit that no training process will get.
//
// This package must be initialised before syscall. It imports nothing, and the linker initialises
// packages that are ready in the order of their paths, so this package comes first. It handles no
// other limit, because Go does not change other limits.
package startlimit

import _ "unsafe" // for go:linkname

// Limit holds the soft and the hard limit, with the same layout as the kernel's struct rlimit64.
type Limit struct {
	Soft uint64
	Hard uint64
}

// NoFile is the limit on open files at the start of the process. It is nil if the kernel did not
// report the limit.
var NoFile = openFiles()

// noFile is the value of RLIMIT_NOFILE in asm-generic/resource.h. It is the same on all
// architectures of GPU nodes.
const noFile = 7

func openFiles() *Limit {
	var old Limit
	if prlimit(0, noFile, nil, &old) != nil {
		return nil
	}
	return &old
}

// prlimit is the function of package syscall, which keeps this name accessible for
// golang.org/x/sys.
//
//go:linkname prlimit syscall.prlimit
func prlimit(pid, resource int, set, old *Limit) error
