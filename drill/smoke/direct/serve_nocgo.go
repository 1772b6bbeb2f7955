// SPDX-License-Identifier: Apache-2.0

//go:build !linux || !cgo

package direct

import "os"

// Serve says that there is nothing to do it with: both libraries are C's, and there for Linux.
func Serve(int, string) error {
	(&words{out: os.Stdout}).failed(*absent("", "this preflight was built without cgo"))
	return nil
}
