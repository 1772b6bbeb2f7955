// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import "strings"

// freshFaults are faults that were launched without knowing how preflight judges them.
var freshFaults = []planted{
	// The client's configuration of ssh.
	{name: "known-hosts-elsewhere", steps: sh("head", `touch /root/none; printf 'Host *\n\tUserKnownHostsFile /root/none\n\tGlobalKnownHostsFile /root/none\n\tStrictHostKeyChecking yes\n' >/root/.ssh/config`), dies: "pdsh"},
	{name: "user-of-ssh-unknown", steps: sh("head", `printf 'Host w2\n\tUser trainer\n' >/root/.ssh/config`), dies: "pdsh"},
	{name: "ssh-option-misspelt", steps: sh("head", `printf 'Host *\n\tServerAliveIntervall 5\n' >/root/.ssh/config`), dies: "pdsh"},
	{name: "ssh-config-writable", steps: sh("head", `printf 'Host *\n\tServerAliveInterval 5\n' >/root/.ssh/config; chmod 666 /root/.ssh/config`), dies: "pdsh", mayBeUnknown: "preflight refuses the file as ssh does, names the chmod that cures it, and ends with 2"},
	{name: "key-readable-by-all", steps: sh("head", `chmod 644 /root/.ssh/id_*`), dies: "pdsh"},
	{name: "ssh-binds-elsewhere", steps: sh("head", `printf 'Host *\n\tBindAddress 10.9.9.9\n' >/root/.ssh/config`), dies: "pdsh"},
	{name: "ssh-proxy-fails", steps: sh("head", `printf 'Host w2\n\tProxyCommand /bin/false\n' >/root/.ssh/config`), dies: "pdsh"},
	{name: "ssh-is-verbose", steps: sh("head", `printf 'Host *\n\tLogLevel DEBUG2\n' >/root/.ssh/config`), trains: "pdsh"},
	{name: "ssh-wants-terminal", steps: sh("head", `printf 'Host *\n\tRequestTTY force\n' >/root/.ssh/config`), trains: "pdsh"},
	{name: "known-hosts-hashed", steps: sh("head", `ssh-keygen -H -f /root/.ssh/known_hosts >/dev/null 2>&1; rm -f /root/.ssh/known_hosts.old`), trains: "pdsh"},
	{name: "search-path-of-pdsh", env: []string{"DSHPATH=/opt/none/bin"}, trains: "pdsh"},
	{name: "fan-out-of-pdsh", env: []string{"FANOUT=1"}, trains: "pdsh"},

	// The server's configuration of ssh, and its rules of access.
	{name: "key-from-elsewhere", steps: sh("w2", `sed -i 's/^/from="10.9.9.9" /' /root/.ssh/authorized_keys`), dies: "pdsh"},
	{name: "root-denied", steps: sh("w2", sshdOptionsFirst+`prepend 'DenyUsers root'`), dies: "pdsh"},
	{name: "root-not-permitted", steps: sh("w2", sshdOptionsFirst+`prepend 'PermitRootLogin no'`), dies: "pdsh"},
	{name: "keys-of-other-kind", steps: sh("w2", sshdOptionsFirst+`prepend 'PubkeyAcceptedAlgorithms rsa-sha2-512'`), dies: "pdsh"},
	{name: "key-exchange-old", steps: sh("w2", sshdOptionsFirst+`prepend 'KexAlgorithms diffie-hellman-group14-sha1'`), dies: "pdsh"},
	{name: "cipher-old", steps: sh("w2", sshdOptionsFirst+`prepend 'Ciphers aes256-cbc'`), dies: "pdsh"},
	{name: "hosts-deny", steps: sh("w2", `echo 'sshd: ALL' >/etc/hosts.deny`), dies: "pdsh"},

	// Shells and limits.
	{name: "cd-is-a-function", steps: sh("w2", `echo 'cd() { echo "use pushd" >&2; return 1; }' >>/root/.bashrc`), dies: "pdsh", differs: "preflight enters the working directory itself, and not with the shell's cd"},
	{name: "no-patterns", steps: sh("nodes", `echo 'set -f' >>/root/.bashrc`), trains: "pdsh"},
	{name: "little-data", steps: sh("w2", `echo 'ulimit -d 300000' >>/root/.bashrc`), dies: "pdsh"},
	{name: "one-processor", steps: sh("w2", `echo 'taskset -pc 0 $$ >/dev/null' >>/root/.bashrc`), trains: "pdsh"},
	{name: "bind-at-once", steps: sh("w2", `echo 'export LD_BIND_NOW=1' >>/root/.bashrc`), trains: "pdsh"},
	{name: "library-path-of-nothing", steps: sh("w2", `echo 'export LD_LIBRARY_PATH=/opt/none/lib:' >>/root/.bashrc`), trains: "pdsh"},
	{name: "logs-of-torch-unknown", steps: sh("w2", `echo 'export TORCH_LOGS=+nonsense' >>/root/.bashrc`), dies: "pdsh"},

	// Python.
	{name: "sitecustomize-exits", steps: sh("w2", `alone "$site"; echo 'raise SystemExit("license server unreachable")' >"$site/sitecustomize.py"`), trains: "c10d"},
	{name: "venv-without-configuration", steps: sh("w2", `alone "$bin/.."; rm "$bin/../pyvenv.cfg"`), dies: "c10d"},
	{name: "venv-of-another-python", steps: sh("w2", `alone "$bin"; rm "$bin/python"; ln -s /usr/bin/python3.10 "$bin/python"`), dies: "c10d"},
	{name: "script-in-latin-1", files: map[string]string{"train.py": "# caf\xe9\n" + string(training)}, dies: "c10d pdsh"},

	// Routes, addresses and firewalls.
	{name: "store-closed-to-root", steps: sh("w2", `iptables -A OUTPUT -p tcp --dport 29400 -m owner --uid-owner 0 -j DROP`), dies: "c10d"},
	{name: "route-by-unused-address", steps: sh("w2", `ip route add 10.77.1.1/32 via 10.77.250.250 dev eth0 onlink`), dies: "c10d"},
	{name: "rule-of-routing", steps: sh("w2", `ip rule add to 10.77.1.1 unreachable`), dies: "c10d"},
	{name: "neighbour-fixed", steps: sh("w2", `ip neigh replace 10.77.1.1 lladdr 02:00:00:00:00:99 dev eth0 nud permanent`), dies: "c10d"},
	{name: "hardware-address-changed", steps: sh("w2", `ip link set eth0 address 02:00:00:aa:bb:cc`), dies: "c10d"},
	{name: "sockets-of-ipv6-alone", steps: sh("w1", `echo 1 >/proc/sys/net/ipv6/bindv6only`), trains: "c10d static"},
	{name: "no-ipv6", steps: sh("nodes", `echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6; echo 1 >/proc/sys/net/ipv6/conf/lo/disable_ipv6`), trains: "c10d"},
	{name: "no-ping", steps: sh("nodes", `iptables -A INPUT -p icmp -j DROP`), trains: "c10d"},
	{name: "small-segments", steps: sh("nodes", `iptables -t mangle -A OUTPUT -p tcp --tcp-flags SYN,RST SYN -j TCPMSS --set-mss 536`), trains: "c10d"},
	{name: "tcp-tinkered", steps: sh("nodes", `cd /proc/sys/net/ipv4; echo 0 >tcp_timestamps; echo 0 >tcp_sack; echo 5 >tcp_fin_timeout; echo 2 >tcp_syn_retries`), trains: "c10d"},
	{name: "reserved-ports", steps: sh("w1", `echo 29400-29500 >/proc/sys/net/ipv4/ip_local_reserved_ports`), trains: "c10d"},

	// Files.
	{name: "hostfile-of-a-rack", files: map[string]string{"hostfile": "# rack 4\n\nw1   slots=1   # left\n\tw2 slots=1\t\n\n"}, trains: "pdsh"},
	{name: "hostfile-in-other-order", files: map[string]string{"hostfile": "w2 slots=1\nw1 slots=1\n"}, trains: "pdsh"},
	{name: "no-services", steps: sh("nodes", `rm -f /etc/services /etc/protocols`), trains: "c10d"},
	{name: "argument-of-no-file", arguments: []string{"--log_dir", "/root/logs/not/yet"}, trains: "pdsh"},
	{name: "line-ends-of-script", files: map[string]string{"train.py": crlf(string(training))}, trains: "pdsh"},
}

func crlf(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") }
