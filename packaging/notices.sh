#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the terms of the third-party code in the binaries, from the module cache. Every package
# contains this text.
set -eu
cd "$(dirname "$0")/.."
echo "The programs contain third-party code under these terms."
goroot=$(go env GOROOT)
{
	echo "Go $(go env GOVERSION) $goroot"
	GOOS=linux CGO_ENABLED=1 go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/preflight | sort -u
} | while read -r name release dir; do
	for file in "$dir"/LICEN[CS]E* "$dir"/COPYING* "$dir"/NOTICE*; do
		[ ! -f "$file" ] || printf '\n---- %s %s: %s\n\n%s\n' "$name" "$release" "${file##*/}" "$(cat "$file")"
	done
done
