#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the C compiler that makes programs for glibc on a Linux machine, as
# `sh portable/cc.sh arm64`. Where there is none it says what to install, and
# fails.
set -eu

arch=$1
if [ "${CGO_ENABLED:-1}" = 0 ]; then
	echo "cc.sh: CGO_ENABLED=0: preflight for linux/$arch cannot call NVML, and asks nvidia-smi" >&2
	exit 1
fi
own=$(go env GOHOSTOS)/$(go env GOHOSTARCH)
case linux/$arch in
"$own") cc=$(go env CC) package="gcc libc6-dev" ;;
linux/amd64) cc=x86_64-linux-gnu-gcc package="gcc-x86-64-linux-gnu libc6-dev-amd64-cross" ;;
linux/arm64) cc=aarch64-linux-gnu-gcc package="gcc-aarch64-linux-gnu libc6-dev-arm64-cross" ;;
*)
	echo "cc.sh: NVML is asked on amd64 and arm64 only: preflight for $arch asks nvidia-smi" >&2
	exit 1
	;;
esac

# A header of glibc's own: gcc alone is no compiler, and musl's would make a
# program that does not start (see package portable).
# shellcheck disable=SC2086 # CC may be a command with arguments
if ! echo '#include <gnu/libc-version.h>' | $cc -xc -fsyntax-only - 2>/dev/null; then
	echo "cc.sh: no C compiler for glibc on linux/$arch ($cc; in Debian: $package): preflight for it cannot call NVML, and asks nvidia-smi" >&2
	exit 1
fi
echo "$cc"
