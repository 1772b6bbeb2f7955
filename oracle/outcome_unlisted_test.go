// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import (
	"slices"
	"strings"
)

// trainingWith returns the training with more work of Python after the first exchange of the ranks.
func trainingWith(work string) map[string]string {
	const exchange = "dist.all_reduce(tensor)\n"
	return map[string]string{"train.py": strings.Replace(string(training), exchange, exchange+work, 1)}
}

// before returns the training with work of Python before the ranks meet.
func before(work string) map[string]string {
	const meeting = "patience = datetime"
	return map[string]string{"train.py": strings.Replace(string(training), meeting, work+meeting, 1)}
}

const (
	// sshdOptionsFirst defines prepend, which puts the options in $1 in front of the configuration
	// of sshd, where they win.
	sshdOptionsFirst = `prepend() {
	{ printf '%s\n' "$1"; cat /etc/ssh/sshd_config; } >/etc/ssh/new
	mv /etc/ssh/new /etc/ssh/sshd_config
	kill -HUP "$(cat /run/sshd/testhosts.pid)"
	sleep 0.5
}
`
	// batches loads tensors in processes of their own, as most trainings do.
	batches = `from torch.utils.data import DataLoader
for batch in DataLoader([torch.ones(100) for _ in range(8)], batch_size=2, num_workers=2, timeout=own.patience):
    assert batch.sum() == 200
`
	// checkpoint writes the model of rank 0.
	checkpoint = `if dist.get_rank() == 0:
    to = rest[rest.index("--output_dir") + 1] if "--output_dir" in rest else "."
    torch.save(torch.ones(1 << 20), os.path.join(to, "model.pt"))
`
	// wedged defines a function that mounts a file system at $1 that never answers, like NFS whose
	// server is gone.
	wedged = `wedged() {
	mkdir -p "$1"
	/usr/bin/python3 - "$1" >/dev/null 2>&1 <<'PYTHON' &
import ctypes, os, sys, time
fuse = os.open("/dev/fuse", os.O_RDWR)
options = b"fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other" % fuse
if ctypes.CDLL(None, use_errno=True).mount(b"nfs", sys.argv[1].encode(), b"fuse", 0, options):
    sys.exit(os.strerror(ctypes.get_errno()))
time.sleep(1e6)
PYTHON
	until grep -q " $1 fuse" /proc/mounts; do sleep 0.1; done
}
`
)

// unlistedFaults are what administrators do, break and forget.
var unlistedFaults = []planted{
	// Login shells and their files.
	{name: "restricted-shell", steps: sh("w2", `sed -i 's|^root:.*|root:x:0:0:root:/root:/bin/rbash|' /etc/passwd`), dies: "pdsh"},
	{name: "recorded-sessions", steps: sh("nodes", `
		printf '#!/bin/sh\necho "ATTENTION! Your session is being recorded!" >&2\nexec /bin/bash "$@"\n' >/etc/recorded
		chmod 755 /etc/recorded
		sed -i 's|^root:.*|root:x:0:0:root:/root:/etc/recorded|' /etc/passwd`), trains: "pdsh"},
	{name: "bashrc-becomes-zsh", steps: sh("w2", `echo 'exec zsh' >>/root/.bashrc`), dies: "pdsh"},
	{name: "bashrc-is-strict", steps: sh("nodes", `echo 'set -euo pipefail' >>/root/.bashrc`), trains: "pdsh"},
	{name: "seconds-of-cpu", steps: sh("w2", `echo 'ulimit -t 5' >>/root/.bashrc`), files: before("import time\nwhile time.process_time() < 8:\n    pass\n"), dies: "pdsh"},
	{name: "size-of-files", steps: sh("w1", `echo 'ulimit -f 1024' >>/root/.bashrc`), files: trainingWith(checkpoint), dies: "pdsh", mayBeUnknown: "the agent has no place"},
	{name: "old-pythonpath-in-bashrc", steps: sh("w2", `
		mkdir -p /root/old/torch
		echo 'raise ImportError("torch 1.4 needs Python 3.6")' >/root/old/torch/__init__.py
		echo 'export PYTHONPATH=/root/old' >>/root/.bashrc`), trains: "pdsh"},
	{name: "pythonhome-in-bashrc", steps: sh("w2", `echo 'export PYTHONHOME=/opt/python-3.9' >>/root/.bashrc`), dies: "pdsh"},

	// The configuration of ssh and of sshd.
	{name: "ssh-remote-command", steps: sh("head", `printf 'Host w*\n\tRequestTTY yes\n\tRemoteCommand tmux new -A -s main\n' >/root/.ssh/config`), dies: "pdsh"},
	{name: "ssh-no-directory-for-sockets", steps: sh("head", `printf 'Host *\n\tControlMaster auto\n\tControlPath ~/.ssh/sockets/%%r@%%h:%%p\n\tControlPersist 10m\n' >/root/.ssh/config`), dies: "pdsh"},
	{name: "sshd-ends-idle-sessions", steps: sh("w2", sshdOptionsFirst+`prepend 'ChannelTimeout *=3s'`), dies: "pdsh"},
	{name: "sshd-with-little-address-space", steps: sh("w2", `prlimit --pid "$(cat /run/sshd/testhosts.pid)" --as=2000000000`), dies: "pdsh"},
	{name: "sshd-hardened", steps: sh("nodes", sshdOptionsFirst+`
		echo 'Authorized uses only.' >/etc/issue.net
		prepend 'Banner /etc/issue.net
MaxSessions 1
MaxStartups 2:100:2
LoginGraceTime 20
PermitTTY no
DisableForwarding yes
PermitUserRC no
AcceptEnv none
ClientAliveInterval 15
Compression no'`), trains: "pdsh"},

	// The file systems.
	{name: "shared-memory-read-only", steps: sh("w2", `mount -o remount,ro /dev/shm`), files: trainingWith(batches), dies: "c10d"},
	{name: "long-tmpdir", env: []string{"TMPDIR=/run/" + strings.Repeat("scratch-of-the-job/", 6)}, steps: sh("nodes", `mkdir -p /run/`+strings.Repeat("scratch-of-the-job/", 6)), files: trainingWith(batches), dies: "c10d"},
	{name: "wedged-mount-elsewhere", steps: sh("w2", wedged+`wedged /run/nfs`), trains: "pdsh"},
	{name: "output-read-only", arguments: []string{"--output_dir", "/root/out"}, steps: slices.Concat(sh("nodes", `mkdir /root/out`), sh("w1", `mount -t tmpfs -o ro none /root/out`)), files: trainingWith(checkpoint), dies: "pdsh"},

	// Python and its packages.
	{name: "script-beside-random.py", files: map[string]string{"random.py": "print(4)  # chosen by fair dice roll\n"}, dies: "pdsh c10d"},
	{name: "safe-path", env: []string{"PYTHONSAFEPATH=1"}, files: map[string]string{"layers.py": "", "train.py": "import layers\n" + string(training)}, dies: "c10d"},
	{name: "file-of-torch-truncated", steps: sh("w2", `alone "$site/torch/distributed"
		truncate -s 20000 "$site/torch/distributed/distributed_c10d.py"`), dies: "c10d"},
	{name: "pth-file-broken", steps: sh("w2", `alone "$site"
		echo 'import distutils_precedence_of_old; distutils_precedence_of_old.run()' >"$site/zz-old.pth"`), trains: "pdsh"},

	// Libraries that the loader brings in.
	{name: "proxychains", steps: sh("w2", `cd /root
		printf '#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <errno.h>\n#include <arpa/inet.h>\n#include <sys/socket.h>\nint connect(int fd, const struct sockaddr *a, socklen_t n) {\n	const struct sockaddr_in *in = (const void *)a; const struct sockaddr_in6 *six = (const void *)a;\n	int (*real)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "connect");\n	if (a->sa_family == AF_INET && ntohl(in->sin_addr.s_addr) >> 24 != 127 || a->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six->sin6_addr) && six->sin6_addr.s6_addr[12] != 127) { errno = ECONNREFUSED; return -1; }\n	return real(fd, a, n);\n}\n' >proxy.c
		gcc -shared -fPIC -o libproxychains.so.4 proxy.c -ldl
		echo 'export LD_PRELOAD=/root/libproxychains.so.4' >>/root/.bashrc`), dies: "pdsh", differs: "a preloaded library can redirect any call, and preflight calls without it"},
	{name: "snoopy-removed", steps: sh("nodes", `echo /usr/lib/libsnoopy.so >/etc/ld.so.preload`), trains: "pdsh c10d"},
	{name: "old-libstdc++", steps: sh("w2", `mkdir -p /root/miniconda/lib
		echo 'int x;' | gcc -x c -shared -fPIC -Wl,-soname,libstdc++.so.6 -o /root/miniconda/lib/libstdc++.so.6 -
		echo 'export LD_LIBRARY_PATH=/root/miniconda/lib' >>/root/.bashrc`), dies: "pdsh"},

	// Variables.
	{name: "loglevel-unknown", env: []string{"LOGLEVEL=verbose"}, dies: "c10d"},

	// The network.
	{name: "egress-of-w2-closed", steps: sh("w2", `iptables -A OUTPUT -o eth0 -p tcp -m conntrack --ctstate NEW -m multiport ! --dports 22,53,443 -j REJECT`), dies: "c10d"},
	{name: "egress-of-w1-closed", steps: sh("w1", `iptables -A OUTPUT -o eth0 -p tcp -m conntrack --ctstate NEW -m multiport ! --dports 22,53,443 -j REJECT`), trains: "c10d"},
	{name: "one-connection-a-client", steps: sh("w1", `iptables -A INPUT -i eth0 -p tcp --syn ! --dport 22 -m connlimit --connlimit-above 1 --connlimit-mask 32 -j REJECT --reject-with tcp-reset`), dies: "c10d"},
	{name: "few-logins-a-minute", steps: sh("w2", `iptables -A INPUT -i eth0 -p tcp --syn --dport 22 -m recent --name ssh --set
		iptables -A INPUT -i eth0 -p tcp --syn --dport 22 -m recent --name ssh --update --seconds 60 --hitcount 4 -j DROP`), trains: "pdsh"},
	{name: "idle-connections-forgotten", steps: sh("w1", `
		iptables -A INPUT -i eth0 -p tcp -m conntrack --ctstate INVALID -j DROP
		echo 0 >/proc/sys/net/netfilter/nf_conntrack_tcp_loose
		echo 3 >/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established`), files: trainingWith("import time\ntime.sleep(10)\ndist.all_reduce(tensor)\ntensor.fill_(ranks)\n"), dies: "c10d"},
	{name: "bridge-takes-the-subnet", steps: sh("w2", `ip link add virbr0 type bridge
		ip addr add 10.77.1.254/24 dev virbr0
		ip link set virbr0 up`), dies: "c10d"},
	{name: "port-of-master-connects-elsewhere", steps: sh("w1", `setsid /usr/bin/python3 -c 'import socket, time
s = socket.socket()
s.bind(("", 29500))
s.connect(("10.77.1.2", 22))
time.sleep(1e6)' >/dev/null 2>&1 &
		sleep 1`), dies: "static pdsh"},

	// Hostfiles.
	{name: "hostfile-with-bom", files: map[string]string{"hostfile": "\ufeffw1 slots=1\nw2 slots=1\n"}, dies: "pdsh"},
	{name: "hostfile-of-windows", files: map[string]string{"hostfile": "w1 slots=1\r\nw2 slots=1\r\n"}, trains: "pdsh", dies: "openmpi"},
	{name: "hostfile-in-capitals", files: map[string]string{"hostfile": "W1 slots=1\nW2 slots=1\n"}, trains: "pdsh"},

	// MPI and accelerate.
	{name: "firewall-of-head", steps: sh("head", `iptables -A INPUT -i eth0 -p tcp --syn ! --dport 22 -j DROP`), trains: "pdsh", dies: "openmpi"},
	{name: "mca-parameters-of-w2", steps: sh("w2", `mkdir -p /root/.openmpi; echo 'oob_tcp_if_include = ib0' >/root/.openmpi/mca-params.conf`), dies: "openmpi"},
	{name: "accelerate-config-of-later", steps: sh("w2", `mkdir -p /root/.cache/huggingface/accelerate
		printf 'compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_machines: 2\nnum_processes: 2\nscheduler_config: {}\n' >/root/.cache/huggingface/accelerate/default_config.yaml`), dies: "accelerate", differs: "preflight reads accelerate's default configuration on the launching machine only"},

	// More of each kind.
	{name: "login-waits-for-resolver", steps: sh("w2", sshdOptionsFirst+`
		echo 'nameserver 10.77.255.53' >/etc/resolv.conf
		sed -i 's/^hosts:.*/hosts: dns files/' /etc/nsswitch.conf
		iptables -A OUTPUT -p udp --dport 53 -j DROP
		prepend 'UseDNS yes'`), trains: "pdsh"},
	{name: "key-has-expired", steps: sh("w2", `sed -i 's/^/expiry-time="20250101" /' /root/.ssh/authorized_keys`), dies: "pdsh"},
	{name: "home-writable-by-all", steps: sh("w2", `chmod 777 /root`), dies: "pdsh"},
	{name: "key-with-audited-command", steps: sh("nodes", `
		printf '#!/bin/sh\necho "$(date) $SSH_ORIGINAL_COMMAND" >>/var/log/audited\nexec "$SHELL" -c "$SSH_ORIGINAL_COMMAND"\n' >/etc/audited
		chmod 755 /etc/audited
		sed -i 's|^|command="/etc/audited",no-pty |' /root/.ssh/authorized_keys`), trains: "pdsh"},
	{name: "ssh-to-wrong-address", steps: sh("head", `printf 'Host w1\n\tHostName 10.77.1.1\nHost w2\n\tHostName 10.77.1.1\n' >/root/.ssh/config`), dies: "pdsh"},
	{name: "port-of-ssh-for-pdsh", env: []string{"PDSH_SSH_ARGS_APPEND=-p 2222"}, dies: "pdsh"},
	{name: "root-is-squashed", steps: slices.Concat(sh("w1", `chown -R 1000:1000 "$dir"; chmod 700 "$dir"`), sh("w2", `kill "$(cat /run/sshd/testhosts.pid)"
		sleep 0.5
		setpriv --bounding-set -dac_override,-dac_read_search --inh-caps -dac_override,-dac_read_search /usr/sbin/sshd -E /var/log/sshd.log
		sleep 0.5`)), dies: "pdsh"},
	{name: "numpy-half-upgraded", steps: sh("w2", `alone "$site/numpy"
		echo 'raise ImportError("numpy.core.multiarray failed to import")' >"$site/numpy/__init__.py"`), dies: "pdsh c10d"},
	{name: "import-missing-on-w2", steps: sh("w2", `alone "$site"
		rm -r "$site/yaml"`), files: map[string]string{"train.py": "import yaml\n" + string(training)}, dies: "c10d"},
	{name: "extension-of-python-missing", steps: sh("w2", `alone /usr/lib/python3.11
		rm /usr/lib/python3.11/lib-dynload/_ctypes.*`), dies: "c10d"},
	{name: "remains-of-pip", steps: sh("w2", `alone "$site"
		for left in torch-2.14.0.dist-info '~orch-2.14.0.dist-info'; do
			mkdir "$site/$left"
			printf 'Metadata-Version: 2.1\nName: torch\nVersion: 2.14.0\n' >"$site/$left/METADATA"
		done`), trains: "c10d"},
	{name: "few-files", steps: sh("nodes", `echo 'ulimit -n 64' >>/root/.bashrc`), trains: "pdsh"},
	{name: "loopback-down", steps: sh("w2", `ip link set lo down`), trains: "pdsh c10d"},
	{name: "two-ports-to-connect-from", steps: sh("w2", `echo '60000 60001' >/proc/sys/net/ipv4/ip_local_port_range`), trains: "c10d"},
	{name: "own-name-is-an-old-ipv6-address", steps: sh("w2", `{ echo 'fd00::77 w2'; cat /etc/hosts; } >/etc/hosts.new; cp /etc/hosts.new /etc/hosts`), trains: "c10d"},
	{name: "firewall-closed-but-for-peers", steps: sh("nodes", `echo 1 >/proc/sys/net/ipv4/icmp_echo_ignore_all
		iptables -A INPUT -i lo -j ACCEPT
		iptables -A INPUT -m conntrack --ctstate INVALID -j DROP
		iptables -A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT
		iptables -A INPUT -p tcp ! --syn -m conntrack --ctstate NEW -j DROP
		iptables -A INPUT -s 10.77.0.0/16 -p tcp -j ACCEPT
		iptables -P INPUT DROP`), trains: "c10d"},
	{name: "variables-of-slurm", env: []string{"SLURM_JOB_ID=4242", "SLURM_JOBID=4242", "SLURM_JOB_NODELIST=gpu[1-4]", "SLURM_NODELIST=gpu[1-4]", "SLURM_NNODES=4", "SLURM_NTASKS=4", "SLURM_PROCID=0", "SLURM_LOCALID=0"}, trains: "pdsh"},
	{name: "warnings-are-errors", env: []string{"PYTHONWARNINGS=error"}, trains: "pdsh"},
	{name: "tmp-noexec-and-compile", steps: sh("w2", `mount -o remount,noexec /tmp`), files: before("faulthandler.cancel_dump_traceback_later()  # compiling takes its time\ntorch.compile(lambda x: x.sin() + 1)(torch.ones(8))\n"), dies: "c10d"},
	{name: "little-memory-for-logins", steps: sh("w2", `mkdir -p /sys/fs/cgroup/memory/outcome-small
		echo 300M >/sys/fs/cgroup/memory/outcome-small/memory.limit_in_bytes
		cat /run/sshd/testhosts.pid >/sys/fs/cgroup/memory/outcome-small/cgroup.procs`), dies: "pdsh"},
	{name: "local-address-left-over", env: []string{"PET_LOCAL_ADDR=127.0.0.1"}, dies: "c10d"},
	{name: "bashrc-of-a-tinkerer", steps: sh("nodes", `cat >>/root/.bashrc <<'BASHRC'
umask 077
set -o noclobber
export CDPATH=.:/opt POSIXLY_CORRECT=1 GREP_OPTIONS=--color=always LS_COLORS= TMOUT=30
cd() { builtin cd "$@" && ls >/dev/null; }
echo() { builtin echo -e "$@"; }
BASHRC`), trains: "pdsh"},
	{name: "wedged-mount-in-library-path", steps: sh("w2", wedged+`wedged /run/nfs
		echo 'export LD_LIBRARY_PATH=/run/nfs/lib' >>/root/.bashrc`), dies: "pdsh"},
	{name: "proxy-variables", env: []string{"http_proxy=http://10.77.9.9:3128", "https_proxy=http://10.77.9.9:3128", "ALL_PROXY=socks5://10.77.9.9:1080", "no_proxy="}, trains: "pdsh c10d"},
	{name: "data-missing", arguments: []string{"--data", "/run/data/tokens.bin"}, steps: sh("w1", `mkdir -p /run/data; echo 1 >/run/data/tokens.bin`), files: before("open(rest[rest.index('--data') + 1]).read()\n"), dies: "c10d"},
	{name: "transparent-proxy", steps: sh("w2", `setsid /usr/bin/python3 -c 'import socket
s = socket.create_server(("", 12345), backlog=100)
kept = []
while True: kept.append(s.accept())' >/dev/null 2>&1 &
		iptables -t nat -A OUTPUT -o eth0 -p tcp --dport 1024: -j REDIRECT --to-ports 12345
		sleep 1`), dies: "c10d"},
	{name: "home-full", steps: sh("w2", `mount -o remount,size=64k /root; head -c 1M /dev/zero >/root/core || :`), trains: "pdsh"},
	{name: "noexec-everywhere", steps: sh("nodes", `for own in /root /tmp /var/tmp /dev/shm /run; do mount -o remount,noexec "$own"; done`), trains: "pdsh", mayBeUnknown: "the agent has no place"},
	{name: "null-is-a-file", steps: sh("w2", `echo junk >/run/null; mount --bind /run/null /dev/null`), trains: "pdsh"},
	{name: "size-of-files-suffices", steps: sh("w2", `echo 'ulimit -f 1024' >>/root/.bashrc`), trains: "pdsh", mayBeUnknown: "the agent has no place"},
	{name: "idle-connections-kept", steps: sh("w1", `
		iptables -A INPUT -i eth0 -p tcp -m conntrack --ctstate INVALID -j DROP
		echo 0 >/proc/sys/net/netfilter/nf_conntrack_tcp_loose`), files: trainingWith("import time\ntime.sleep(10)\ndist.all_reduce(tensor)\ntensor.fill_(ranks)\n"), trains: "c10d"},
}
