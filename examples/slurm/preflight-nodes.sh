#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Belongs beside preflight-prolog.sh and preflight-epilog.sh in /etc/slurm, which read it: what
# both do to the nodes of a job. Runs on the controller as SlurmUser, who must be able to
# log in to the nodes by key. preflight reads SLURM_JOB_NODELIST itself.
set -u
# Slurm promises neither.
export PATH="${PATH:-/usr/local/bin:/usr/bin:/bin}"
export HOME="${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}"

log() { logger -t "preflight[job $SLURM_JOB_ID]" "$@"; }
kept=$(mktemp -d) || exit 0
trap 'rm -rf "$kept"' EXIT

# look CHECKS leaves in $bad the nodes that fail one of these, with commas, and the
# report in syslog. It ends the script well where there is none: what could not be told is
# no reason to stop a job or to drain a node, nor is what is wrong with the launch.
# Only errors count, even if SlurmUser's own preflight.yaml has strict: true.
look() {
	report=$(preflight -q --timeout 20s --strict=false --only "$1" \
		--bad-hosts "$kept/bad" -o "prometheus=$kept/nodes" -o - 2>&1)
	code=$?
	[ "$code" = 0 ] || printf '%s\n' "$report" | log
	[ "$code" = 1 ] || exit 0
	bad=$(grep '^[^#]' "$kept/bad" | paste -s -d , -)
	[ -n "$bad" ] || exit 0
}

# drain WHEN takes $bad out of service and fails where it may not.
drain() {
	said=$(scontrol update NodeName="$bad" State=DRAIN \
		Reason="preflight $1 job $SLURM_JOB_ID: see the controller's syslog" 2>&1) ||
		{ log "$bad could not be drained: $said"; return 1; }
}
