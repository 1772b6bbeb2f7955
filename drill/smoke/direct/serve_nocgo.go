// SPDX-License-Identifier: Apache-2.0

//go:build !linux || !cgo

package direct

import "os"

// Serve reports that this build cannot do it: both libraries are C libraries for Linux.
func Serve(int, string) error {
	(&words{out: os.Stdout}).failed(*absent("", "this preflight was built without cgo"))
	return nil
}
