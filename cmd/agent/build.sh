#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the agents for Linux into a directory, and the overlay that makes a build of preflight
# embed them:
#
#   sh cmd/agent/build.sh DIRECTORY ARCH…
#   go build -overlay DIRECTORY/overlay.json ./cmd/preflight
#
# There is one agent per architecture. It needs glibc and calls NVML. With NOCGO=1 it is static and
# cannot call NVML. An agent does not hold the commit that it was built from, so a node keeps its
# cached agent as long as the agent does not change.
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
