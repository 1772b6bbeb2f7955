#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Functions for preflight-prolog.sh and preflight-epilog.sh. Install it with them in /etc/slurm. They run
# on the controller as SlurmUser, who must be able to log in to the nodes with a key. preflight gets the
# nodes of the job from SLURM_JOB_NODELIST.
set -u
# Slurm does not guarantee that these two are set.
export PATH="${PATH:-/usr/local/bin:/usr/bin:/bin}"
export HOME="${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}"

log() { logger -t "preflight[job $SLURM_JOB_ID]" "$@"; }
kept=$(mktemp -d) || exit 0
trap 'rm -rf "$kept"' EXIT

# look CHECKS runs these checks, writes the report to syslog, and sets $bad to the nodes that failed,
# separated by commas. If none failed, it ends the script with 0: an unknown result, or a problem of
# the launch as a whole, is no reason to stop a job or to drain a node. Only errors count, even if
# SlurmUser's preflight.yaml has strict: true.
look() {
	report=$(preflight -q --timeout 20s --strict=false --only "$1" \
		--bad-hosts "$kept/bad" -o "prometheus=$kept/nodes" -o - 2>&1)
	code=$?
	[ "$code" = 0 ] || printf '%s\n' "$report" | log
	[ "$code" = 1 ] || exit 0
	bad=$(grep '^[^#]' "$kept/bad" | paste -s -d , -)
	[ -n "$bad" ] || exit 0
}

# drain WHEN drains the nodes in $bad. It fails if scontrol fails.
drain() {
	said=$(scontrol update NodeName="$bad" State=DRAIN \
		Reason="preflight $1 job $SLURM_JOB_ID: see the controller's syslog" 2>&1) ||
		{ log "$bad could not be drained: $said"; return 1; }
}
