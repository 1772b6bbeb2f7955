#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the agents for Linux machines into a directory of their own, and what has a
# build of preflight carry them:
#
#   sh cmd/agent/build.sh DIRECTORY ARCH…
#   go build -overlay DIRECTORY/overlay.json ./cmd/preflight
#
# There is one agent per architecture. It needs glibc and calls NVML; with NOCGO=1 it is
# static and cannot. Agents do not say which commit they are built from, so a node keeps the
# one that it has for as long as nothing in it changes.
set -eu

mkdir -p "$1"
dir=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/../.."
rm -f "$dir"/linux-* "$dir"/overlay.json

for arch in "$@"; do
	cc=$(sh portable/cc.sh "$arch")
	[ -n "$cc" ] && cgo=1 || cgo=0
	CGO_ENABLED=$cgo CC=$cc GOOS=linux GOARCH=$arch \
		go build -trimpath -buildvcs=false -tags netgo,osusergo -ldflags '-s -w' -o "$dir/linux-$arch" ./cmd/agent
done
GOOS='' GOARCH='' go run ./cmd/agent/pack "$dir"
