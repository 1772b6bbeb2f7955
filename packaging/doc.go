// SPDX-License-Identifier: Apache-2.0

// Package packaging makes packages from finished binaries, for `make release`: package.sh writes
// the archives and the .deb and .rpm packages, and wheel writes those for pip.
//
// One commit always gives the same bytes if the Go and C compilers are the same, and for an .rpm
// also rpmbuild, which writes its own release into the package. Every time is SOURCE_DATE_EPOCH,
// every owner is root, and every list is sorted. The package does not build: it packs the files
// that portable/floor has checked.
package packaging
