// SPDX-License-Identifier: Apache-2.0

// Package startlimit remembers the open-file limit this process was started
// with. Package syscall raises the soft limit to the hard one before main runs
// (go.dev/issue/46279) and tells nobody what it was, so a later look sees a
// limit that no training process will get.
//
// It must be the first to look: it imports nothing, and the linker starts
// packages that are ready in the order of their paths, so this one before
// syscall. It refuses to know any other limit, since Go leaves those alone.
package startlimit

import _ "unsafe" // for go:linkname

// Limit is the soft and the hard limit, laid out as the kernel's struct rlimit64.
type Limit struct {
	Soft uint64
	Hard uint64
}

// NoFile is the limit on open files at the start of the process, nil when the
// kernel did not say.
var NoFile = openFiles()

// noFile is RLIMIT_NOFILE of asm-generic/resource.h, the same on all
// architectures a GPU node has.
const noFile = 7

func openFiles() *Limit {
	var old Limit
	if prlimit(0, noFile, nil, &old) != nil {
		return nil
	}
	return &old
}

// prlimit is syscall's, which keeps this name open for golang.org/x/sys.
//
//go:linkname prlimit syscall.prlimit
func prlimit(pid, resource int, set, old *Limit) error
