// SPDX-License-Identifier: Apache-2.0

// Package packaging makes packages of finished binaries, for `make release`:
// package.sh writes the archives, the .deb and the .rpm packages, and wheel those for pip.
//
// Of one commit it makes the same bytes wherever and whenever it runs, given the same
// Go and C compilers, and for an .rpm the same rpmbuild, as that writes its release into it:
// every time is SOURCE_DATE_EPOCH, every owner root, every list sorted. It refuses to build:
// what it packs is what portable/floor has looked at.
package packaging
