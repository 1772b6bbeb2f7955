#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs from apt what the tests, the demo, the benchmark and `make cluster`
# use beside Go, and does nothing when all of it is there:
#
#   openssh-server   the sshd of the namespace hosts
#   openssh-client   ssh and ssh-keygen: the peer whose behaviour we promise
#   pdsh clustershell pssh   what preflight is measured against; DeepSpeed
#                    launches with pdsh
#   iproute2 iptables   to look at and to break the hosts' networks
#   slurm-wlm munge   a Slurm of the hosts
#   podman crun      containers of the hosts, 39 MB
#   kubernetes-client   kubectl, which enters pods; any other kubectl in /usr/bin will do
#   openmpi-bin mpich   the two kinds of mpirun that launches go by
#   python3          the interpreter a launch would use
#   gcc libc6-dev    the compiler of the stand-in for NVIDIA's library
#   procps           ps, pkill and free inside the hosts
#   zsh tcsh fish    login shells that a node may have and that are not POSIX
#   libxml2-utils    xmllint, which holds JUnit reports against a schema
#   cmark-gfm shellcheck   the parser that GitHub reads our Markdown with; reads our
#                    shell scripts and those among the examples
#   groff-base man-db   set the manual pages, and say what is wrong with them
#   bash-completion  what completions for bash build on
#
# With the word release, instead, what `make release` uses:
#
#   gcc libc6-dev    the compiler of the binaries that call NVML
#   gcc-ARCH-linux-gnu libc6-dev-ARCH-cross   the same for the other of amd64 and
#                    arm64
#   qemu-user-static starts the other one's binaries here
#   rpm              rpmbuild, which makes the .rpm packages
#
# With the word consumers, instead, large programs of others that `make release-check`
# has read what we give them:
#
#   lintian          Debian's, the packages
#   prometheus       its promtool, the alert rules among the examples
#   icinga2-bin      the example for Icinga 2
#   python3-venv     pip, which installs the wheel and fetches Ansible, ReFrame and NVRx
#
# With the word browser, instead, what `make browser-test` looks at the HTML report
# with. It is large, and nothing else uses it:
#
#   chromium         the browser, Debian's: Ubuntu's package of that name is a snap
#   fonts-liberation fonts-dejavu-core   letters and signs as a reader's machine has them
#
# No service is started: an sshd of the machine's own is nobody's wish here.
set -eu

# needed says the files and the packages that bring them.
needed() {
	if [ "${1:-}" = release ]; then
		echo "/usr/bin/cc gcc"
		echo "/usr/include/stdio.h libc6-dev"
		echo "/usr/bin/rpmbuild rpm"
		case $(uname -m) in
		x86_64)
			echo "/usr/bin/aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu"
			echo "/usr/aarch64-linux-gnu/include/stdio.h libc6-dev-arm64-cross"
			echo "/usr/bin/qemu-aarch64-static qemu-user-static"
			;;
		aarch64)
			echo "/usr/bin/x86_64-linux-gnu-gcc gcc-x86-64-linux-gnu"
			echo "/usr/x86_64-linux-gnu/include/stdio.h libc6-dev-amd64-cross"
			echo "/usr/bin/qemu-x86_64-static qemu-user-static"
			;;
		esac
		return
	fi
	if [ "${1:-}" = consumers ]; then
		echo "/usr/bin/lintian lintian"
		echo "/usr/bin/promtool prometheus"
		echo "/usr/sbin/icinga2 icinga2-bin"
		echo "$(set -- /usr/lib/python3*/ensurepip && echo "$1") python3-venv" # below the version
		return
	fi
	if [ "${1:-}" = browser ]; then
		echo "/usr/bin/chromium chromium"
		echo "/usr/share/fonts/truetype/liberation fonts-liberation"
		echo "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf fonts-dejavu-core"
		return
	fi
	cat <<LIST
/usr/sbin/sshd openssh-server
/usr/bin/ssh openssh-client
/usr/bin/pdsh pdsh
/usr/bin/clush clustershell
/usr/bin/parallel-ssh pssh
/usr/sbin/ip iproute2
/usr/sbin/iptables iptables
/usr/sbin/slurmctld slurm-wlm
/usr/sbin/munged munge
/usr/bin/podman podman
/usr/bin/crun crun
/usr/bin/kubectl kubernetes-client
/usr/bin/mpirun.openmpi openmpi-bin
/usr/bin/mpiexec.hydra mpich
/usr/bin/python3 python3
/usr/bin/cc gcc
/usr/include/stdio.h libc6-dev
/usr/bin/ps procps
/bin/zsh zsh
/bin/tcsh tcsh
/usr/bin/fish fish
/usr/bin/xmllint libxml2-utils
/usr/bin/cmark-gfm cmark-gfm
/usr/bin/shellcheck shellcheck
/usr/bin/groff groff-base
/usr/bin/lexgrog man-db
/usr/share/bash-completion/bash_completion bash-completion
LIST
}

missing=$(needed "$@" | while read -r file package; do [ -e "$file" ] || printf " %s" "$package"; done)
[ -n "$missing" ] || exit 0

echo "apt.sh: missing here:$missing"
if ! command -v apt-get >/dev/null; then
	echo "apt.sh: this is no Debian or Ubuntu: install them with your package manager" >&2
	exit 1
fi
if [ "$(id -u)" != 0 ]; then
	echo "apt.sh: installing needs root: sudo sh $0 $*" >&2
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
