// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo && !netgo && (amd64 || arm64)

package portable

// Only a program whose names are looked up by glibc needs libresolv. Linking it costs nearly a
// millisecond of processor time at every start.

// #cgo LDFLAGS: -Wl,--wrap=res_search
// #cgo LDFLAGS: -Wl,--push-state -Wl,--no-as-needed -l:libresolv.so.2 -Wl,--pop-state
import "C"
