#!/bin/sh
# slurm.conf: PrologSlurmctld=/etc/slurm/preflight-prolog.sh
#
# Looks at the nodes of a job before it starts. Those that cannot carry it are drained,
# and Slurm queues the job again because this script fails (it cancels an interactive
# one). Runs on the controller as SlurmUser, who must be able to log in to the nodes by
# key. preflight reads SLURM_JOB_NODELIST itself.
set -u
# Slurm sets neither.
export PATH="${PATH:-/usr/local/bin:/usr/bin:/bin}"
export HOME="${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}"

lists=$(mktemp -d) || exit 0
trap 'rm -rf "$lists"' EXIT

# Only what is a node's own fault: the launch is for the job to judge.
report=$(preflight -q --timeout 20s --good-hosts "$lists/good" --bad-hosts "$lists/bad" \
	--only ssh-reach,ssh-host-key,ssh-login,agent-start,shm-writable,disk-space,gpu-driver-loads,gpu-healthy 2>&1)
code=$?
[ "$code" = 0 ] || printf '%s\n' "$report" | logger -t "preflight[job $SLURM_JOB_ID]"

# What could not be told (2) is no reason to stop a job.
[ "$code" = 1 ] || exit 0

# Where no node is good, this machine's own key or network is the likelier cause, and
# one mistake here must not drain the cluster job by job. A job on a single node is
# therefore never stopped.
if ! grep -q '^[^#]' "$lists/good"; then
	logger -t "preflight[job $SLURM_JOB_ID]" "no node of $SLURM_JOB_NODELIST is good: nothing is drained, look at this machine first"
	exit 0
fi
scontrol update NodeName="$(grep '^[^#]' "$lists/bad" | paste -s -d , -)" State=DRAIN \
	Reason="preflight before job $SLURM_JOB_ID: see the controller's syslog"
exit 1
