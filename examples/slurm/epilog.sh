#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# slurm.conf: EpilogSlurmctld=/etc/slurm/preflight-epilog.sh, with preflight-nodes.sh in the same
# directory. Then run systemctl restart slurmctld; scontrol reconfigure is not enough.
#
# Checks the GPUs of a job's nodes when the job ends, and drains the nodes whose GPUs have failed,
# before the next job dies of them.
#
# Slurm starts this script before the last processes of the job have ended, and gives the nodes to
# the next job without waiting for it. So the script does not check for busy GPUs or files in
# /dev/shm. clean-shm.sh removes such files.
# shellcheck source=SCRIPTDIR/preflight-nodes.sh
. "${0%/*}/preflight-nodes.sh"

look gpu-driver-loads,gpu-healthy
drain after
exit 0
