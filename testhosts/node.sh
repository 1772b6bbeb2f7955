#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The first process of one stand-in node, already in namespaces of its own:
# makes them a machine, starts sshd and reaps what is orphaned there. The
# kernel ends everything else in the node when this process ends, so the
# command line of this script is also how a cluster is found again.
#
# usage: node.sh NODE, in a directory that holds NODE/{fstab,etc,rw} and home
set -eu

# The relative paths below stay good after the node's own /run hides this one.
cd "${0%/*}/$1"

if [ "$1" != switch ]; then
	mount -t tmpfs -o mode=755 testhosts rw
	mkdir rw/etc rw/work
	# mount keeps notes of x-mount.mkdir in a file of the machine, for ever, as nobody
	# unmounts here, and reads it all every time.
	LIBMOUNT_UTAB=$PWD/rw/utab mount --all --fstab fstab
	echo "$1" >/proc/sys/kernel/hostname
	cp -a etc/. /etc/
	cp -a ../home/. /root/
	mkdir -m 755 /run/sshd
	# As a cluster's limits.conf has it, as far as this machine lets root.
	ulimit -l unlimited 2>/dev/null || ulimit -S -l "$(ulimit -H -l)"
	ulimit -S -n "$(ulimit -H -n)"
	/usr/sbin/sshd -E /var/log/sshd.log
fi

cd /
while :; do
	sleep infinity || :
done
