#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# slurm.conf: PrologSlurmctld=/etc/slurm/preflight-prolog.sh, with preflight-nodes.sh beside it
# (systemctl restart slurmctld: scontrol reconfigure alone does not begin to run it)
#
# Looks at the nodes of a job before it starts. Those that cannot carry it are drained,
# and Slurm queues the job again because this script fails (it cancels an interactive
# one, and one with --no-requeue). Runs once a job, on the controller. As Prolog=, which
# runs on every node, it would be wrong: there a failure drains the node that runs it.
# shellcheck source=SCRIPTDIR/preflight-nodes.sh
. "${0%/*}/preflight-nodes.sh"

# Only what is a node's own fault: the launch is for the job to judge, and a host key
# that is not in known_hosts is this machine's to mend.
look ssh-reach,ssh-login,agent-start,shm-writable,gpu-driver-loads,gpu-healthy

# Where no node is reached, this machine's own key or network is the likelier cause, and
# one mistake here must not drain the cluster job by job.
if ! grep -q '^preflight_node_reached{.*} 1$' "$kept/nodes"; then
	log "none of $SLURM_JOB_NODELIST was reached: nothing is drained, look at this machine first"
	exit 0
fi

# A job that is queued again and finds the same nodes comes back here for ever, so it goes
# on where they could not be drained.
drain before || exit 0
exit 1
