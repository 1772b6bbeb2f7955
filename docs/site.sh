#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds a site from the pages, as mkdocs.yml says: sh docs/site.sh. It writes only to bin/site:
# the program (mkdocs-material, from PyPI the first time, 164 MB), copies of the pages, and
# html/, which you can open or put on a server. Exits with 3 if the program cannot be installed,
# and with 1 if a link is broken or a page is missing from the navigation.
set -eu
cd "$(dirname "$0")/.."
release=9.8.1
venv=bin/site/venv-$release

if [ ! -x "$venv/bin/mkdocs" ]; then
	rm -rf bin/site/venv-*
	{ python3 -m venv "$venv" && "$venv/bin/python" -m pip install -q --disable-pip-version-check "mkdocs-material==$release"; } || exit 3
fi

# Copy the pages, and the other files that they link to.
rm -rf bin/site/pages
mkdir -p bin/site/pages
touch bin/site/go.mod # so that Go does not take the copies for packages of this module
tar -cf - --exclude='*_test.go' --exclude=examples/testdata README*.md CONTRIBUTING.md CHANGELOG.md docs examples checks/catalogue/testdata/README.md |
	tar -xf - -C bin/site/pages
cp LICENSE action.yml preflight.go plan.go architecture_test.go example_test.go bin/site/pages
mkdir bin/site/pages/testhosts
cp testhosts/apt.sh bin/site/pages/testhosts
# NO_MKDOCS_2_WARNING silences a warning of the theme about a future release of mkdocs. Without
# --quiet, because that would also hide warnings from --strict.
NO_MKDOCS_2_WARNING=1 "$venv/bin/python" -m mkdocs build --strict
