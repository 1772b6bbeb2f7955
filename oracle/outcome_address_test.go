// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import "preflight/testhosts"

// addressFaults are faults of names and addresses that DeepSpeed, torch and gloo look up.
var addressFaults = []planted{
	{name: "hostname-refuses-addresses", steps: sh("w1", refusesI), trains: "c10d", dies: "pdsh"},
	{name: "hostname-refuses-addresses-last", steps: sh("w2", refusesI), trains: "pdsh"},
	{name: "hostname-prints-nothing", steps: sh("w1", hostnamePrints("")), dies: "pdsh"},
	{name: "hostname-prints-docker0-first", steps: append(change("w1", (*testhosts.Node).AddDocker0), sh("w1", hostnamePrints("172.17.0.1 10.77.1.1"))...), dies: "pdsh"},
	{name: "hostname-hidden", steps: change("w1", hide("/usr/bin/hostname")), options: []string{"--master_addr", "10.77.1.1"}, dies: "pdsh"},
	{name: "hostname-function", steps: sh("w1", "echo 'hostname() { echo 10.77.1.1; }' >>/root/.bashrc"), trains: "pdsh"},
}

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
