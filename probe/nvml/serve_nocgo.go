// SPDX-License-Identifier: Apache-2.0

//go:build !linux || !cgo

package nvml

import "io"

// Serve reports that this build cannot ask NVML, because NVML is a C library.
func Serve(out io.Writer) {
	report := lines{out}.send
	report(Line{Unloaded: WithoutCgo})
	report(Line{Done: true})
}
