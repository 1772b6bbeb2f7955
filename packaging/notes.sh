#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints what CHANGELOG.md says about a release, and fails if it says nothing:
#
#   sh packaging/notes.sh v0.1.0
set -eu

cd "$(dirname "$0")/.."
notes=$(awk -v release="$1" '/^## / { found = $2 == release; next } found' CHANGELOG.md)
if [ -z "$notes" ]; then
	echo "notes.sh: CHANGELOG.md has no section \"## $1\": add one" >&2
	exit 1
fi
printf '%s\n' "$notes"
