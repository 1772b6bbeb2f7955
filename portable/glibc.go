// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo && (amd64 || arm64)

package portable

// Each name in a --wrap option has a wrapper function in glibc.c. The two libraries contain those
// functions before glibc 2.34, and are empty since then. go-nvml has the last line, too. A program
// that imports this package without go-nvml needs it: otherwise Go's trial link fails, and the
// program becomes position-independent with text relocations.

// #cgo LDFLAGS: -Wl,--wrap=__libc_start_main
// #cgo LDFLAGS: -Wl,--wrap=dlopen -Wl,--wrap=dlsym -Wl,--wrap=dlclose -Wl,--wrap=dlerror
// #cgo LDFLAGS: -Wl,--wrap=pthread_create -Wl,--wrap=pthread_sigmask
// #cgo LDFLAGS: -Wl,--wrap=pthread_key_create -Wl,--wrap=pthread_setspecific
// #cgo LDFLAGS: -Wl,--wrap=pthread_getattr_np -Wl,--wrap=pthread_attr_getstack -Wl,--wrap=pthread_attr_getstacksize
// #cgo LDFLAGS: -Wl,--push-state -Wl,--no-as-needed -l:libpthread.so.0 -l:libdl.so.2 -Wl,--pop-state
// #cgo LDFLAGS: -Wl,--unresolved-symbols=ignore-in-object-files
import "C"
