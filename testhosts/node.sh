#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The first process of a test host, which already has its own namespaces. It sets up the
# file systems, starts sshd and reaps orphaned processes. When it ends, the kernel ends
# all other processes of the host. A cluster is found by the command line of this script.
#
# usage: node.sh NODE, in a directory that holds NODE/{fstab,etc,rw} and home
set -eu

# Relative paths still work after the host's own /run hides this directory.
cd "${0%/*}/$1"

if [ "$1" != switch ]; then
	mount -t tmpfs -o mode=755 testhosts rw
	mkdir rw/etc rw/work
	# mount records x-mount.mkdir in a file of the machine and reads the whole file each
	# time. We never unmount, so the file would grow without end. Use a private file.
	LIBMOUNT_UTAB=$PWD/rw/utab mount --all --fstab fstab
	echo "$1" >/proc/sys/kernel/hostname
	cp -a etc/. /etc/
	cp -a ../home/. /root/
	mkdir -m 755 /run/sshd
	# Limits as in the limits.conf of a cluster, as far as root may raise them here.
	ulimit -l unlimited 2>/dev/null || ulimit -S -l "$(ulimit -H -l)"
	ulimit -S -n "$(ulimit -H -n)"
	/usr/sbin/sshd -E /var/log/sshd.log
fi

cd /
while :; do
	sleep infinity || :
done
