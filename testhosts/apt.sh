#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs with apt what the tests, the demo, the benchmark and `make cluster`
# need in addition to Go. It does nothing if everything is installed:
#
#   openssh-server   the sshd of the namespace hosts
#   openssh-client   ssh and ssh-keygen, because preflight must behave as ssh does
#   pdsh             DeepSpeed launches with it, and the benchmark compares preflight with it
#   iproute2 iptables   tools to inspect and to break the hosts' networks
#   slurm-wlm munge   Slurm on the hosts
#   podman crun      containers on the hosts, 39 MB
#   sshfs            a file system that hosts share, with caches and without locks
#   kubernetes-client   kubectl, to enter pods; any other kubectl in /usr/bin works too
#   openmpi-bin mpich   the two kinds of mpirun that DeepSpeed launches with
#   python3          the interpreter that a launch would use
#   gcc libc6-dev    the compiler for the stand-in of NVIDIA's library
#   procps           ps, pkill and free inside the hosts
#   zsh tcsh fish    login shells that are not POSIX, which a node may have
#   libxml2-utils    xmllint, which checks JUnit reports against a schema
#   cmark-gfm shellcheck   GitHub's Markdown parser, for our pages; a checker for our shell
#                    scripts and those of the examples
#   groff-base man-db   format the manual pages and report mistakes in them
#   bash-completion  the library that bash completions need
#
# With the argument "demo", it installs only what `make demo` and `make cluster` need of them.
#
# With the argument "release", it installs what `make release` needs instead:
#
#   gcc libc6-dev    the compiler for the binaries that call NVML
#   gcc-ARCH-linux-gnu libc6-dev-ARCH-cross   the same for the other architecture
#                    (amd64 or arm64)
#   qemu-user-static runs the binaries of the other architecture on this machine
#   rpm              rpmbuild, which makes the .rpm packages
#
# With the argument "rpm", it installs only rpm, for `make rpm`.
#
# With the argument "consumers", it installs the large programs with which
# `make release-check` tests our packages and examples instead:
#
#   lintian          checks the Debian packages
#   prometheus       promtool, for the alert rules of the examples
#   icinga2-bin      for the example for Icinga 2
#   python3-venv     pip, to install the wheel, Ansible, ReFrame and NVRx
#
# With the argument "docker", it installs what the tests with a Docker daemon need instead, 70 MB:
#
#   docker.io        the daemon, which each test host starts for itself
#
# With the argument "browser", it installs what `make browser-test` needs for the HTML
# report instead. These packages are large, and nothing else needs them:
#
#   chromium         the browser, from Debian (Ubuntu's package is a snap)
#   fonts-liberation fonts-dejavu-core   fonts as on a reader's machine
#
# It starts no service: you probably do not want another sshd on this machine.
set -eu

# needed prints one line per package: a file that it installs, and its name.
needed() {
	if [ "${1:-}" = demo ]; then
		for package in openssh-server openssh-client pdsh iproute2 iptables python3 gcc libc6-dev procps; do
			needed | grep " $package\$"
		done
		return
	fi
	if [ "${1:-}" = rpm ]; then
		echo "/usr/bin/rpmbuild rpm"
		return
	fi
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
		echo "$(set -- /usr/lib/python3*/ensurepip && echo "$1") python3-venv" # in a directory with the version in its name
		return
	fi
	if [ "${1:-}" = docker ]; then
		# Another Docker than Debian's also works, and apt would remove it.
		command -v dockerd >/dev/null || echo "/usr/sbin/dockerd docker.io"
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
/usr/sbin/ip iproute2
/usr/sbin/iptables iptables
/usr/sbin/slurmctld slurm-wlm
/usr/sbin/munged munge
/usr/bin/podman podman
/usr/bin/crun crun
/usr/bin/sshfs sshfs
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

echo "apt.sh: missing packages:$missing"
if ! command -v apt-get >/dev/null; then
	echo "apt.sh: this system has no apt-get: install them with your package manager" >&2
	exit 1
fi
if [ "$(id -u)" != 0 ]; then
	echo "apt.sh: needs root to install them: sudo sh $0 $*" >&2
	exit 1
fi

# Debian runs this program before it starts a service; 101 means no. If the machine
# already has one, keep it.
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
