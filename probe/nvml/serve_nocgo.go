//go:build !linux || !cgo

package nvml

import "io"

// Serve says that there is nobody to ask: NVML is a C library.
func Serve(out io.Writer) {
	say := lines{out}.say
	say(Line{Unloaded: WithoutCgo})
	say(Line{Done: true})
}
