#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# slurm.conf: EpilogSlurmctld=/etc/slurm/preflight-epilog.sh, with preflight-nodes.sh beside it
# (systemctl restart slurmctld: scontrol reconfigure alone does not begin to run it)
#
# Looks at the GPUs of a job's nodes when it ends. Nodes on which some failed under it are
# drained before the next job dies of them.
#
# Slurm does not wait for the job's last processes before it starts this, nor for this
# before it gives the nodes to the next job: so it does not look for GPUs in use or
# shared memory left behind. clean-shm.sh removes the latter.
# shellcheck source=SCRIPTDIR/preflight-nodes.sh
. "${0%/*}/preflight-nodes.sh"

look gpu-driver-loads,gpu-healthy
drain after
exit 0
