#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Unpacks the C libraries of old systems into one directory each, so that finished
# binaries can be started with them: sh portable/roots.sh DIRECTORY. Downloads 28 MB
# through apt and changes nothing outside DIRECTORY. Does nothing if all of them
# exist, and fails if none exists in the end.
#
#   amd64-2.27   Ubuntu 18.04, which is older than the oldest glibc we promise
#   amd64-2.31   Debian 11
#   arm64-2.31   Debian 11
set -eu

mkdir -p "$1"
cd "$1"

# unpack PACKAGE DIRECTORY. DIRECTORY exists only when it is complete.
unpack() {
	rm -rf "$2" "$2.part" &&
		dpkg -x "$1" "$2.part" &&
		mkdir -p "$2.part/proc" "$2.part/mnt" &&
		mv "$2.part" "$2"
}

# Ubuntu's keys are not on this machine, but this file will not change. The checksum is
# the one in the package index of its release.
ubuntu() {
	/usr/lib/apt/apt-helper -q -oAPT::Sandbox::User=root download-file \
		http://archive.ubuntu.com/ubuntu/pool/main/g/glibc/libc6_2.27-3ubuntu1_amd64.deb "$PWD/libc6.deb" \
		SHA256:1e1eb86fd646aa68f7144ec692b837b6b352d215880c6a2d0c92c19d36938427 &&
		unpack libc6.deb amd64-2.27
}

# own_apt runs apt with separate lists. It checks signatures and leaves this machine's lists
# unchanged.
own_apt() {
	apt-get -q -oDir::Etc::sourcelist="$PWD/apt/sources.list" -oDir::Etc::sourceparts=none -oDir::State::Lists="$PWD/apt/lists" \
		-oDir::State::status="$PWD/apt/status" -oDir::Cache="$PWD/apt/cache" -oAPT::Architectures=amd64,arm64 -oAPT::Sandbox::User=root "$@"
}

debian() {
	mkdir -p apt/lists/partial apt/cache/archives/partial
	: >apt/status
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bullseye main" >apt/sources.list
	own_apt update &&
		own_apt download libc6:amd64 && unpack libc6_*_amd64.deb amd64-2.31 &&
		own_apt download libc6:arm64 && unpack libc6_*_arm64.deb arm64-2.31
}

[ -d amd64-2.27 ] || ubuntu || echo "roots.sh: Ubuntu 18.04's C library could not be fetched" >&2
[ -d arm64-2.31 ] || debian || echo "roots.sh: Debian 11's C library could not be fetched" >&2
rm -rf apt ./*.deb
[ -d amd64-2.27 ] || [ -d arm64-2.31 ]
