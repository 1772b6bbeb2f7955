#!/bin/sh
# slurm.conf: EpilogSlurmctld=/etc/slurm/preflight-epilog.sh
#
# Looks at the GPUs of a job's nodes when it ends. Nodes on which some failed under it are
# drained before the next job dies of them. Runs on the controller as SlurmUser, who must
# be able to log in to the nodes by key.
#
# Slurm does not wait for the job's last processes before it starts this, nor for this
# before it gives the nodes to the next job: so it does not look for GPUs in use or
# shared memory left behind. clean-shm.sh removes the latter.
set -u
# Slurm promises neither.
export PATH="${PATH:-/usr/local/bin:/usr/bin:/bin}"
export HOME="${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}"

log() { logger -t "preflight[job $SLURM_JOB_ID]" "$@"; }
kept=$(mktemp -d) || exit 0
trap 'rm -rf "$kept"' EXIT

report=$(preflight -q --timeout 20s -o "prometheus=$kept/nodes" -o - --only gpu-driver-loads,gpu-healthy 2>&1)
[ $? = 1 ] || exit 0
printf '%s\n' "$report" | log

bad=$(sed -n 's/^preflight_finding{check=".*",node="\(..*\)",verdict="fail"} .*/\1/p' "$kept/nodes" | sort -u | paste -s -d , -)
[ -n "$bad" ] || exit 0 # a preflight.yaml of SlurmUser may fail the launch as a whole
said=$(scontrol update NodeName="$bad" State=DRAIN \
	Reason="preflight after job $SLURM_JOB_ID: see the controller's syslog" 2>&1) ||
	log "$bad could not be drained: $said"
