// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo && !netgo && (amd64 || arm64)

package portable

// Only a program that has glibc look names up needs libresolv, which costs every
// start of it nearly a millisecond of processor time.

// #cgo LDFLAGS: -Wl,--wrap=res_search
// #cgo LDFLAGS: -Wl,--push-state -Wl,--no-as-needed -l:libresolv.so.2 -Wl,--pop-state
import "C"
