#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes a site of the pages, as mkdocs.yml has it: sh docs/site.sh. Everything of it lies in
# bin/site: the program (mkdocs-material, from PyPI the first time, 164 MB), the pages, and
# html/, to look at or to put on a server. Ends with 3 where the program is not to be had,
# with 1 where a page leads nowhere or is left out.
set -eu
cd "$(dirname "$0")/.."
release=9.8.1
venv=bin/site/venv-$release

if [ ! -x "$venv/bin/mkdocs" ]; then
	rm -rf bin/site/venv-*
	{ python3 -m venv "$venv" && "$venv/bin/python" -m pip install -q --disable-pip-version-check "mkdocs-material==$release"; } || exit 3
fi

# With what they lead to that is no page.
rm -rf bin/site/pages
mkdir -p bin/site/pages
touch bin/site/go.mod # what is copied there are no packages of ours
tar -cf - --exclude='*_test.go' --exclude=examples/testdata README*.md CONTRIBUTING.md docs examples checks/catalogue/testdata/README.md |
	tar -xf - -C bin/site/pages
cp LICENSE action.yml preflight.go plan.go architecture_test.go example_test.go bin/site/pages
# The theme's authors warn of a release of mkdocs that is not there yet. Not --quiet: it
# keeps warnings from --strict as well.
NO_MKDOCS_2_WARNING=1 "$venv/bin/python" -m mkdocs build --strict
