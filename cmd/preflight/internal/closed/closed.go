// SPDX-License-Identifier: Apache-2.0

// Package closed tells whether standard output was closed when the program was started: Go's
// runtime opens /dev/null in its place, where what is written is lost and nobody is told.
//
// It refuses to guess by what is open there later: others start programs with /dev/null, and
// mean it.
package closed

import (
	"os"
	"syscall"
)

// Output is standard output, or where that was closed a file that takes nothing and says so.
func Output() *os.File {
	if !atStart() {
		return os.Stdout
	}
	nothing, err := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return os.Stdout
	}
	return os.NewFile(uintptr(nothing), "to standard output, which was closed")
}
