// SPDX-License-Identifier: Apache-2.0

// Package packaging makes packages of finished binaries, for `make release`:
// package.sh writes the archives and the .deb packages, sbom says what the binaries
// are made of.
//
// Of one commit it makes the same bytes wherever and whenever it runs, given the same
// Go and C compilers: every time is SOURCE_DATE_EPOCH, every owner root, every list
// sorted. It refuses to build: what it packs is what portable/floor has looked at.
package packaging
