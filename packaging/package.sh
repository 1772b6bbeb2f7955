#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Packs finished binaries with the manual, completions and examples:
#
#   sh packaging/package.sh DIST VERSION [-only archive|deb|rpm|wheel] ARCH…
#
# DIST contains preflight-linux-ARCH and preflight-darwin-ARCH. The script adds
# preflight-VERSION-{linux,darwin}-ARCH.tar.gz, preflight_VERSION_ARCH.deb,
# preflight-VERSION-1.MACHINE.rpm and the wheels.
# It needs GNU tar, dpkg-deb for the .deb and rpmbuild for the .rpm. SOURCE_DATE_EPOCH is the
# time of every file inside.
set -eu
umask 022
export LC_ALL=C TZ=UTC
: "${SOURCE_DATE_EPOCH:?is the time of the commit: git log -1 --format=%ct}"
export SOURCE_DATE_EPOCH

dist=$(cd "$1" && pwd)
version=$2
# Nobody reads mail at this address. Set MAINTAINER if you give packages to others.
maintainer=${MAINTAINER:-preflight developers <preflight@example.org>}
shift 2
only=
if [ "$1" = -only ]; then
	only=$2
	shift 2
fi
cd "$(dirname "$0")/.."
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

# examples DIRECTORY copies the examples without their tests.
examples() {
	mkdir -p "$1"
	find examples -type f ! -name '*.go' ! -path '*/testdata/*' | while read -r file; do
		mode=644
		[ ! -x "$file" ] || mode=755
		install -D -m "$mode" "$file" "$1/${file#examples/}"
	done
}

# aged DIRECTORY sets the time of all files to SOURCE_DATE_EPOCH.
aged() { find "$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +; }

# archive OS ARCH
archive() {
	name=preflight-$version-$1-$2
	install -D -m 755 "$dist/preflight-$1-$2" "$tree/$name/preflight"
	[ "$1" != darwin ] || install -m 644 packaging/macos.txt "$tree/$name/MACOS.txt"
	cp -R "$tree/man" "$tree/completions" "$tree/$name/"
	examples "$tree/$name/examples"
	install -m 644 README.md LICENSE NOTICE "$tree/notices/THIRD-PARTY.txt" "$tree/$name/"
	aged "$tree/$name"
	tar -C "$tree" --format=gnu --sort=name --owner=0 --group=0 --numeric-owner -cf - "$name" | gzip -9n >"$dist/$name.tar.gz"
}

# package_version prints a version that dpkg and rpm order as semver.org (11) orders our tags:
# v1.2.0-rc1 and other pre-releases come before v1.2.0, commits after a tag come after it, and
# a commit without any tag comes before all releases, by its date.
package_version() {
	case $version in
	v[0-9]*) echo "${version#v}" | sed 's/-dirty$/+dirty/; s/-\([0-9][0-9]*-g[0-9a-f]*\)/+\1/; s/+\([0-9]*\)-g/+\1.g/; s/-/~/; s/-/./g' ;;
	*) echo "0~$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d).$(echo "$version" | tr - +)" ;;
	esac
}

# copyright refers to the license text that every Debian system has, as Debian's policy
# demands (12.5).
copyright() {
	printf 'Copyright (C) %s the authors of preflight.\n\n' "$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y)"
	printf 'Licensed under the Apache License, Version 2.0; on Debian systems its text is in\n/usr/share/common-licenses/Apache-2.0.\n'
	printf '\nTHIRD-PARTY.txt next to this file has the terms of third-party code.\n'
}

changelog() {
	printf 'preflight (%s) unstable; urgency=medium\n\n  * Built from %s.\n\n -- %s  %s\n' \
		"$(package_version)" "$version" "$maintainer" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")"
}

# glibc ARCH prints the glibc version that the binary needs, or nothing for a static one (NOCGO=1).
glibc() {
	needs=$(go run ./portable/floor "$dist/preflight-linux-$1")
	case $needs in *" glibc "*) echo "${needs##* }" ;; esac
}

# control ARCH SIZE
control() {
	printf 'Package: preflight\nVersion: %s\nArchitecture: %s\nMaintainer: %s\nInstalled-Size: %s\n' \
		"$(package_version)" "$1" "$maintainer" "$2"
	needs=$(glibc "$1")
	[ -z "$needs" ] || printf 'Depends: libc6 (>= %s)\n' "$needs"
	cat packaging/control
}

# installed ARCH ROOT ZSH creates the files below /usr, which all packages have. ZSH is the
# directory of zsh completions, which differs between distributions.
installed() {
	share=$2/usr/share
	mkdir -p "$share/man/man1"
	install -D -m 755 "$dist/preflight-linux-$1" "$2/usr/bin/preflight"
	for page in "$tree"/man/*.1; do gzip -9nc "$page" >"$share/man/man1/${page##*/}.gz"; done
	install -D -m 644 "$tree/completions/preflight.bash" "$share/bash-completion/completions/preflight"
	install -D -m 644 "$tree/completions/_preflight" "$share/zsh/$3/_preflight"
	install -D -m 644 "$tree/completions/preflight.fish" "$share/fish/vendor_completions.d/preflight.fish"
	examples "$share/doc/preflight/examples"
	install -m 644 README.md NOTICE "$tree/notices/THIRD-PARTY.txt" "$share/doc/preflight/"
}

deb() {
	root=$tree/deb-$1
	installed "$1" "$root" vendor-completions
	share=$root/usr/share
	mkdir "$root/DEBIAN"
	copyright >"$share/doc/preflight/copyright"
	changelog | gzip -9n >"$share/doc/preflight/changelog.gz"
	install -D -m 644 packaging/lintian-overrides "$share/lintian/overrides/preflight"
	(cd "$root" && find usr -type f | sort | xargs md5sum >DEBIAN/md5sums)
	control "$1" "$(du -sk --apparent-size "$root/usr" | cut -f1)" >"$root/DEBIAN/control"
	aged "$root"
	# gzip, because every dpkg reads it. Unlike xz, it writes the same bytes on any number of
	# processors.
	dpkg-deb --root-owner-group -Zgzip -z9 --build "$root" "$dist/preflight_$(package_version)_$1.deb"
}

# spec ARCH ROOT prints the contents of control in rpm's format. Red Hat, Fedora and SUSE
# express a version of the C library as a capability that it provides.
spec() {
	printf 'Name: preflight\nVersion: %s\nRelease: 1\nLicense: Apache-2.0\nPackager: %s\n' "$(package_version)" "$maintainer"
	sed -n 's/^Description: \(.\)/Summary: \u\1/p' packaging/control
	echo 'Recommends: openssh-clients, pdsh'
	echo 'AutoReqProv: no' # it would require the interpreters of the examples
	needs=$(glibc "$1")
	[ -z "$needs" ] || printf 'Requires: libc.so.6(GLIBC_%s)(64bit)\n' "$needs"
	printf '%%description\n'
	sed '1,/^Description:/d; s/^ //; s/^\.$//' packaging/control
	printf '%%install\ncp -a %s/usr %%{buildroot}\n' "$2"
	printf '%%files\n%%license /usr/share/licenses/preflight\n%%doc /usr/share/doc/preflight\n'
	(cd "$2" && find usr -type f ! -path usr/share/doc/\* ! -path usr/share/licenses/\* -printf '/%p\n' | sort)
}

rpm() {
	case $1 in amd64) machine=x86_64 ;; arm64) machine=aarch64 ;; *) machine=$1 ;; esac
	root=$tree/rpm-$1
	installed "$1" "$root" site-functions
	install -D -m 644 LICENSE "$root/usr/share/licenses/preflight/LICENSE"
	mv "$root/usr/share/doc/preflight/NOTICE" "$root/usr/share/doc/preflight/THIRD-PARTY.txt" "$root/usr/share/licenses/preflight/"
	aged "$root"
	spec "$1" "$root" >"$tree/preflight-$1.spec"
	# The options switch off what the distribution would do to the files: strip them and link
	# them by build ID. gzip, because every rpm reads it.
	rpmbuild -bb --quiet --nodeps --target "$machine-linux" \
		-D "_topdir $tree/rpmbuild" -D "_rpmdir $dist" -D "_rpmfilename preflight-%{version}-%{release}.$machine.rpm" \
		-D '_buildhost localhost' -D 'use_source_date_epoch_as_buildtime 1' -D 'source_date_epoch_from_changelog 0' \
		-D '_binary_payload w9.gzdio' -D 'debug_package %{nil}' -D '_build_id_links none' -D '__os_install_post %{nil}' "$tree/preflight-$1.spec"
}

# The binary that runs on this machine writes the manual.
here=$dist/preflight-linux-$(go env GOHOSTARCH)
mkdir "$tree/man" "$tree/completions" "$tree/notices"
sh packaging/notices.sh >"$tree/notices/THIRD-PARTY.txt"
"$here" man "$tree/man"
"$here" completion bash >"$tree/completions/preflight.bash"
"$here" completion zsh >"$tree/completions/_preflight"
"$here" completion fish >"$tree/completions/preflight.fish"
"$here" completion powershell >"$tree/completions/preflight.ps1"

# pack KIND PROGRAM ARCH makes a package if it is wanted and the program that makes it is installed.
pack() {
	[ "${only:-$1}" = "$1" ] || return 0
	if command -v "$2" >/dev/null; then
		"$1" "$3"
	elif [ -n "$only" ]; then
		echo "package.sh: $2 not found: install it to make a .$1 package" >&2
		exit 1
	else
		echo "NOT RUN: the .$1 package for $3, because there is no $2" >&2
	fi
}

for arch in "$@"; do
	if [ "${only:-archive}" = archive ]; then
		archive linux "$arch"
		[ ! -e "$dist/preflight-darwin-$arch" ] || archive darwin "$arch"
	fi
	pack deb dpkg-deb "$arch"
	pack rpm rpmbuild "$arch"
done
[ "${only:-wheel}" != wheel ] || go run ./packaging/wheel -version "$version" -dist "$dist" LICENSE NOTICE "$tree/notices/THIRD-PARTY.txt"
