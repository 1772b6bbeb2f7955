#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the version of this checkout: its tag, or the last tag and the commits since then. Without
# any tag, that is the release that CHANGELOG.md prepares, and the number of commits so far:
# v0.1.0-dev-123-gabcdef0. A source archive, which has no git history, is the release itself.
set -eu

cd "$(dirname "$0")/.."
git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null && exit
next=$(sed -n 's/^## \(v[0-9][^ ]*\).*/\1/p' CHANGELOG.md | head -n 1)
if commits=$(git rev-list --count HEAD 2>/dev/null); then
	echo "$next-dev-$commits-g$(git describe --always --abbrev=7 --match '' --dirty)"
else
	echo "$next"
fi
