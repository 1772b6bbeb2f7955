#!/bin/sh
# Installs from apt what the tests, the demo, the benchmark and `make cluster`
# use beside Go, and does nothing when all of it is there:
#
#   openssh-server   the sshd of the namespace hosts
#   openssh-client   ssh and ssh-keygen: the peer whose behaviour we promise
#   pdsh clustershell pssh   what preflight is measured against; DeepSpeed
#                    launches with pdsh
#   iproute2 iptables   to look at and to break the hosts' networks
#   python3          the interpreter a launch would use
#   procps           ps, pkill and free inside the hosts
#   zsh tcsh fish    login shells that a node may have and that are not POSIX
#
# No service is started: an sshd of the machine's own is nobody's wish here.
set -eu

missing=
while read -r file package; do
	[ -e "$file" ] || missing="$missing $package"
done <<LIST
/usr/sbin/sshd openssh-server
/usr/bin/ssh openssh-client
/usr/bin/pdsh pdsh
/usr/bin/clush clustershell
/usr/bin/parallel-ssh pssh
/usr/sbin/ip iproute2
/usr/sbin/iptables iptables
/usr/bin/python3 python3
/usr/bin/ps procps
/bin/zsh zsh
/bin/tcsh tcsh
/usr/bin/fish fish
LIST
[ -n "$missing" ] || exit 0

echo "apt.sh: missing here:$missing"
if ! command -v apt-get >/dev/null; then
	echo "apt.sh: this is no Debian or Ubuntu: install them with your package manager" >&2
	exit 1
fi
if [ "$(id -u)" != 0 ]; then
	echo "apt.sh: installing needs root: sudo sh $0" >&2
	exit 1
fi

# Debian asks this file before it starts a service. One that is there already
# has its own opinion and keeps it.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	trap 'rm -f "$policy"' EXIT
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
# shellcheck disable=SC2086 # a list of words
apt-get install -q -y --no-install-recommends $missing
