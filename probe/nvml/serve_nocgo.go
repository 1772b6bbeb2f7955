// SPDX-License-Identifier: Apache-2.0

//go:build !linux || !cgo

package nvml

import "io"

// Serve says that there is nobody to ask: NVML is a C library.
func Serve(out io.Writer) {
	report := lines{out}.send
	report(Line{Unloaded: WithoutCgo})
	report(Line{Done: true})
}
