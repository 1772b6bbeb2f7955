#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the C compiler for Linux with glibc on an architecture: sh portable/cc.sh arm64.
# If there is none, it prints what to install and fails, because preflight needs one
# to call NVML and see NVIDIA GPUs. With NOCGO=1 it prints nothing, and the caller builds
# without cgo.
set -eu

arch=$1
[ "${NOCGO:-}" != 1 ] || exit 0
wayout="or build with NOCGO=1; that preflight cannot see NVIDIA GPUs (docs/build.md)"
if [ "${CGO_ENABLED:-1}" = 0 ]; then
	echo "cc.sh: linux/$arch needs cgo, and CGO_ENABLED is 0: unset it, $wayout" >&2
	exit 1
fi
own=$(go env GOHOSTOS)/$(go env GOHOSTARCH)
case linux/$arch in
"$own") cc=$(go env CC) package="gcc libc6-dev" ;;
linux/amd64) cc=x86_64-linux-gnu-gcc package="gcc-x86-64-linux-gnu libc6-dev-amd64-cross" ;;
linux/arm64) cc=aarch64-linux-gnu-gcc package="gcc-aarch64-linux-gnu libc6-dev-arm64-cross" ;;
*)
	echo "cc.sh: preflight calls NVML on amd64 and arm64 only, not on $arch: leave $arch out, $wayout" >&2
	exit 1
	;;
esac

# The test includes a header of glibc, because gcc without headers cannot compile, and a
# compiler for musl would build a program that does not start (see package portable).
# shellcheck disable=SC2086 # CC may be a command with arguments
if ! echo '#include <gnu/libc-version.h>' | $cc -xc -fsyntax-only - 2>/dev/null; then
	echo "cc.sh: no C compiler for glibc on linux/$arch: $cc. Install it (Debian: $package), $wayout" >&2
	exit 1
fi
echo "$cc"
