#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# slurm.conf: PrologSlurmctld=/etc/slurm/preflight-prolog.sh, with preflight-nodes.sh in the same
# directory. Then run systemctl restart slurmctld; scontrol reconfigure is not enough.
#
# Checks the nodes of a job before it starts and drains the nodes that fail. The script then fails, so
# Slurm puts the job back into the queue. (Slurm cancels interactive jobs and jobs with --no-requeue.)
# It runs once per job, on the controller. Do not use it as Prolog=: this runs on every node, and a
# failure drains the node that runs it.
# shellcheck source=SCRIPTDIR/preflight-nodes.sh
. "${0%/*}/preflight-nodes.sh"

# Only checks that blame a single node. The job checks its own launch, and an unknown host key is a
# problem of this machine.
look ssh-reach,ssh-login,agent-start,shm-writable,gpu-driver-loads,gpu-healthy

# If no node was reached, the key or the network of this machine is the likely cause. Such a mistake
# must not drain the whole cluster, job by job.
if ! grep -q '^preflight_node_reached{.*} 1$' "$kept/nodes"; then
	log "none of $SLURM_JOB_NODELIST was reached: no node is drained, check this machine first"
	exit 0
fi

# If the nodes could not be drained, let the job start. Otherwise it would be queued again, get the
# same nodes, and come back here without end.
drain before || exit 0
exit 1
