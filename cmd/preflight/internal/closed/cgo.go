// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package closed

// What looks is a constructor of C: it runs before Go's runtime does.

// extern int preflight_output_was_closed;
import "C"

func atStart() bool { return C.preflight_output_was_closed != 0 }
