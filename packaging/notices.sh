#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The terms of what others wrote and the binaries hold, which go where these go: to standard
# output, from the module cache that they were built of.
set -eu
cd "$(dirname "$0")/.."
echo "The programs hold code of others, under these terms."
goroot=$(go env GOROOT)
{
	echo "Go $(go env GOVERSION) $goroot"
	GOOS=linux CGO_ENABLED=1 go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/preflight | sort -u
} | while read -r name release dir; do
	for file in "$dir"/LICEN[CS]E* "$dir"/COPYING* "$dir"/NOTICE*; do
		[ ! -f "$file" ] || printf '\n---- %s %s: %s\n\n%s\n' "$name" "$release" "${file##*/}" "$(cat "$file")"
	done
done
