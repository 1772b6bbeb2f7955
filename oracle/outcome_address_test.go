// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import (
	"slices"

	"preflight/testhosts"
)

// addressFaults are faults of names and addresses that DeepSpeed, torch and gloo look up.
var addressFaults = []planted{
	{name: "hostname-refuses-addresses", steps: sh("w1", refusesI), trains: "c10d", dies: "pdsh"},
	{name: "hostname-refuses-addresses-last", steps: sh("w2", refusesI), trains: "pdsh"},
	{name: "hostname-prints-nothing", steps: sh("w1", hostnamePrints("")), dies: "pdsh"},
	{name: "hostname-prints-docker0-first", steps: append(change("w1", (*testhosts.Node).AddDocker0), sh("w1", hostnamePrints("172.17.0.1 10.77.1.1"))...), dies: "pdsh"},
	{name: "hostname-hidden", steps: change("w1", hide("/usr/bin/hostname")), options: []string{"--master_addr", "10.77.1.1"}, dies: "pdsh"},
	{name: "hostname-shared-below", nodes: 3, steps: sh("nodes", sharedName+`echo "$own trainer" >>/etc/hosts`), trains: "c10d"},
	{name: "hostname-shared-above", nodes: 3, steps: sh("nodes", sharedName+`echo "$own trainer" >/root/hosts; `+aboveHosts), dies: "c10d"},
	{name: "hostname-dotted-alias", steps: sh("nodes", `own=$(hostname -I | cut -d ' ' -f 1); sed -E "s/^($own[[:space:]].*)/\1 train.cluster/" /etc/hosts >/root/hosts; cat /root/hosts >/etc/hosts`), dies: "c10d"},
	{name: "endpoint-held-by-torchrun", steps: sh("w1", `cd "$dir"; PATH=$bin:$PATH setsid "$bin/torchrun" --nnodes 2 --nproc_per_node 1 --rdzv_backend c10d --rdzv_id oracle --rdzv_endpoint 10.77.1.1:29400 train.py --patience 900 >/dev/null 2>&1 </dev/null & for i in $(seq 600); do sleep 0.2; ss -Hltn sport = :29400 | grep -q . && break; done`), dies: "c10d"},
	// getaddrinfo puts the address first that shares most leading bits with the node's own (RFC
	// 6724, rule 9). Its place in the file does not matter.
	{name: "two-addresses-right-first", steps: sh("nodes", "echo 10.77.250.1 w1 >/root/hosts; "+aboveHosts), master: "w1", trains: "static"},
	{name: "two-addresses-wrong-first", steps: sh("nodes", "echo 10.77.1.3 w1 >/root/hosts; "+aboveHosts), master: "w1", trains: "static"},
	// torch tries the second address after two minutes, when the kernel gives up the first.
	{name: "two-addresses-first-dropped", steps: slices.Concat(sh("head", "ip address add 10.77.1.3/16 dev eth0"), change("head", drop("29500")), sh("nodes", "echo 10.77.1.3 w1 >/root/hosts; "+aboveHosts)), master: "w1", trains: "static"},
	{name: "hostname-function", steps: sh("w1", "echo 'hostname() { echo 10.77.1.1; }' >>/root/.bashrc"), trains: "pdsh"},
}

// sharedName gives a machine the hostname that all others have as well.
const sharedName = `own=$(hostname -I | cut -d ' ' -f 1); hostname trainer; `

// aboveHosts puts the lines of /root/hosts above those of /etc/hosts, which is a mount.
const aboveHosts = "cat /etc/hosts >>/root/hosts; cat /root/hosts >/etc/hosts"

// refusesI replaces hostname by one that refuses -I, as that of inetutils and that of BusyBox do.
const refusesI = `cat >/root/hostname <<'EOF'
#!/bin/sh
case $1 in -I) echo "hostname: invalid option -- 'I'" >&2; exit 64;; esac
exec uname -n
EOF
chmod 755 /root/hostname; mount --bind /root/hostname /usr/bin/hostname`

// hostnamePrints replaces hostname by one that prints a line for -I.
func hostnamePrints(line string) string {
	return "printf '#!/bin/sh\\n[ \"$1\" = -I ] && echo " + line + " || uname -n\\n' >/root/hostname; chmod 755 /root/hostname; mount --bind /root/hostname /usr/bin/hostname"
}
