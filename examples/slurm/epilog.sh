#!/bin/sh
# slurm.conf: EpilogSlurmctld=/etc/slurm/preflight-epilog.sh
#
# Looks at the nodes of a job after its end: processes that still hold GPUs, shared
# memory nobody maps any more, GPUs that failed under it. Such nodes are drained before
# the next job dies of them. For partitions whose nodes run one job at a time
# (OverSubscribe=EXCLUSIVE): what another job is doing looks like something left over.
# Runs on the controller as SlurmUser, who must be able to log in to the nodes by key.
set -u
# Slurm sets neither.
export PATH="${PATH:-/usr/local/bin:/usr/bin:/bin}"
export HOME="${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}"

lists=$(mktemp -d) || exit 0
trap 'rm -rf "$lists"' EXIT

# --strict: what is left over is a warning to a launch, and a reason to drain here.
report=$(preflight -q --strict --timeout 20s --bad-hosts "$lists/bad" \
	--only shm-leftovers,gpu-idle,gpu-driver-loads,gpu-healthy 2>&1)
[ $? = 1 ] || exit 0
printf '%s\n' "$report" | logger -t "preflight[job $SLURM_JOB_ID]"

# Nodes that were not reached are on the list too: Slurm finds those itself, and sets
# them DOWN if they are.
scontrol update NodeName="$(grep '^[^#]' "$lists/bad" | paste -s -d , -)" State=DRAIN \
	Reason="preflight after job $SLURM_JOB_ID: see the controller's syslog"
