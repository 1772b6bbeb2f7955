// SPDX-License-Identifier: Apache-2.0

// Package startlimit remembers the open-file limit with which this process was started. Package
// syscall raises the soft limit to the hard one before main runs (go.dev/issue/46279) and does not
// keep the old value, so a later query returns a limit that no training process will get.
//
// It must be initialised first. It imports nothing, and the linker initialises packages that are
// ready in the order of their paths, so this one before syscall. It handles no other limit, since
// Go leaves those alone.
package startlimit

import _ "unsafe" // for go:linkname

// Limit is the soft and the hard limit, laid out as the kernel's struct rlimit64.
type Limit struct {
	Soft uint64
	Hard uint64
}

// NoFile is the limit on open files at the start of the process, nil if the kernel did not report
// it.
var NoFile = openFiles()

// noFile is RLIMIT_NOFILE of asm-generic/resource.h, the same on all architectures of GPU nodes.
const noFile = 7

func openFiles() *Limit {
	var old Limit
	if prlimit(0, noFile, nil, &old) != nil {
		return nil
	}
	return &old
}

// prlimit is syscall's, which keeps this name accessible for golang.org/x/sys.
//
//go:linkname prlimit syscall.prlimit
func prlimit(pid, resource int, set, old *Limit) error
