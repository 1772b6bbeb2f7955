#!/bin/sh
# slurm.conf: PrologSlurmctld=/etc/slurm/preflight-prolog.sh
#
# Looks at the nodes of a job before it starts. Those that cannot carry it are drained,
# and Slurm queues the job again because this script fails (it cancels an interactive
# one, and one with --no-requeue). Runs once a job, on the controller, as SlurmUser, who
# must be able to log in to the nodes by key. As Prolog=, which runs on every node, it
# would be wrong: there a failure drains the node that runs it.
#
# preflight reads SLURM_JOB_NODELIST itself.
set -u
# Slurm promises neither.
export PATH="${PATH:-/usr/local/bin:/usr/bin:/bin}"
export HOME="${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}"

log() { logger -t "preflight[job $SLURM_JOB_ID]" "$@"; }
kept=$(mktemp -d) || exit 0
trap 'rm -rf "$kept"' EXIT

# Only what is a node's own fault: the launch is for the job to judge, and a host key
# that is not in known_hosts is this machine's to mend.
report=$(preflight -q --timeout 20s -o "prometheus=$kept/nodes" -o - \
	--only ssh-reach,ssh-login,agent-start,shm-writable,gpu-driver-loads,gpu-healthy 2>&1)
code=$?
[ "$code" = 0 ] || printf '%s\n' "$report" | log

# What could not be told (2) is no reason to stop a job.
[ "$code" = 1 ] || exit 0

# Where no node is reached, this machine's own key or network is the likelier cause, and
# one mistake here must not drain the cluster job by job.
if ! grep -q '^preflight_node_reached{.*} 1$' "$kept/nodes"; then
	log "none of $SLURM_JOB_NODELIST was reached: nothing is drained, look at this machine first"
	exit 0
fi
bad=$(sed -n 's/^preflight_finding{check=".*",node="\(..*\)",verdict="fail"} .*/\1/p' "$kept/nodes" | sort -u | paste -s -d , -)
[ -n "$bad" ] || exit 0 # a preflight.yaml of SlurmUser may fail the launch as a whole

# A job that is queued again and finds the same nodes comes back here for ever.
if ! said=$(scontrol update NodeName="$bad" State=DRAIN \
	Reason="preflight before job $SLURM_JOB_ID: see the controller's syslog" 2>&1); then
	log "$bad could not be drained, and the job goes on: $said"
	exit 0
fi
exit 1
