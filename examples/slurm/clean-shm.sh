#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# slurm.conf: Epilog=/etc/slurm/clean-shm.sh
#
# Removes the shared memory that a killed job leaves behind, which fills /dev/shm for the
# next one. Runs on every node of the job as root, once its processes have ended.
#
# It always ends with 0: an Epilog that fails drains its node.
set -u
uid=${SLURM_JOB_UID:-}
case $uid in "" | *[!0-9]*) exit 0 ;; esac
[ "$uid" -ge 1000 ] || exit 0 # what the system's own users keep there is of no job

# Another job or a login of the same user may have its own there.
pgrep -U "$uid" >/dev/null && exit 0
find /dev/shm -xdev -mindepth 1 -depth -uid "$uid" -delete
exit 0
