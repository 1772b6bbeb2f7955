#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the agents for Linux machines into a directory of their own, and what has a
# build of preflight carry them:
#
#   sh cmd/agent/build.sh DIRECTORY ARCH…
#   go build -overlay DIRECTORY/overlay.json ./cmd/preflight
#
# Of each architecture there are two: one that can call NVML, where there is a compiler
# for it, and a static one for nodes without glibc, which is also all there is where
# there is none. They do not say of which commit they are, so nodes that have one keep it
# for as long as nothing in it changes.
set -eu

mkdir -p "$1"
dir=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/../.."
rm -f "$dir"/linux-* "$dir"/overlay.json

# build ARCH FILE: with the environment it has besides.
build() {
	GOOS=linux GOARCH=$1 go build -trimpath -buildvcs=false -tags netgo,osusergo -ldflags '-s -w' -o "$2" ./cmd/agent
}

for arch in "$@"; do
	CGO_ENABLED=0 build "$arch" "$dir/linux-$arch-static"
	cc=$(sh portable/cc.sh "$arch") || continue
	CGO_ENABLED=1 CC=$cc build "$arch" "$dir/linux-$arch"
done
GOOS='' GOARCH='' go run ./cmd/agent/pack "$dir"
