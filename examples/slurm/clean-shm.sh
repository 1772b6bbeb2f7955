#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# slurm.conf: Epilog=/etc/slurm/clean-shm.sh
#
# Removes the files that a killed job has left in /dev/shm, so that the next job has space. Slurm runs
# it as root on every node of the job, after the processes of the job have ended.
#
# It always ends with 0, because Slurm drains a node whose Epilog fails.
set -u
uid=${SLURM_JOB_UID:-}
case $uid in "" | *[!0-9]*) exit 0 ;; esac
[ "$uid" -ge 1000 ] || exit 0 # files of system users do not belong to a job

# The user still has processes here: another job or a login, which may use files in /dev/shm.
pgrep -U "$uid" >/dev/null && exit 0
find /dev/shm -xdev -mindepth 1 -depth -uid "$uid" -delete
exit 0
