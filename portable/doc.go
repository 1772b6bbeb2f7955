// SPDX-License-Identifier: Apache-2.0

// Package portable makes a binary that is linked on a new system start on an
// old one. Importing it is all there is to do: the linker then takes the oldest
// version of every function whose version glibc has raised since 2.28.
//
// The Go compiler and NVIDIA's driver leave no way around a dynamic binary:
// libnvidia-ml.so.1 can only be loaded by a program that the system's loader
// started. The loader refuses a program that asks for a newer glibc than it
// belongs to, and a plain build asks for that of the machine it was built on.
//
// It concerns Linux on amd64 and arm64 with cgo; anywhere else the package is
// empty. It refuses to work with another C library than glibc, where a program
// that leaves NVML's functions to be found later would not start anyway: build
// with CGO_ENABLED=0 there. Whether a binary keeps to the floor is not for it to
// say: portable/floor looks at the finished file.
package portable
