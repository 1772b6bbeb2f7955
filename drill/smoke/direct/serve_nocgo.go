// SPDX-License-Identifier: Apache-2.0

//go:build !linux || !cgo

package direct

import "os"

// Serve returns an error: this build cannot run a rank, because both libraries are C libraries for
// Linux.
func Serve(int, string) error {
	(&words{out: os.Stdout}).failed(*absent("", "this preflight was built without cgo"))
	return nil
}
