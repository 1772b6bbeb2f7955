// SPDX-License-Identifier: Apache-2.0

// Package portable makes a binary that was linked on a new system start on an old one. Importing it
// is enough: the linker then uses the oldest version of every function that got a new version in
// glibc since 2.28.
//
// The binary must be dynamic, because of the Go compiler and NVIDIA's driver: only a program that
// was started by the system's loader can load libnvidia-ml.so.1. The loader refuses a program that
// needs a newer glibc than the system has, and a plain build needs the glibc of the machine that
// built it.
//
// The package has an effect on Linux on amd64 and arm64 with cgo. Elsewhere it is empty. It
// supports no C library other than glibc, because a program whose NVML functions are resolved later
// would not start there anyway: build with CGO_ENABLED=0 instead. It does not check the result:
// portable/floor reads the finished file.
package portable
