// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/testhosts"
)

// unusual lists healthy clusters that are not like the default one. Each row has the hostfile, and a
// script for every machine that sets the cluster up. The rows build on each other: a script stays in
// effect for the rows below.
// warns is the only finding of a run without a launch command.
var unusual = []struct{ name, hostfile, script, warns string }{
	// deepspeed would start the ranks on the launching machine, which is no node.
	{name: "one node", hostfile: "w1 slots=8\n", warns: "warn launcher-args [launching machine]"},
	{name: "two nodes", hostfile: "w1 slots=8\nw2 slots=8\n"},
	{name: "addresses", hostfile: "10.77.1.1 slots=8\n10.77.1.2 slots=8\n10.77.1.3 slots=8\n"},
	{name: "a user in front of the names", hostfile: "root@w1 slots=8\nroot@w2 slots=8\nroot@w3 slots=8\n"},
	{name: "names with a domain", hostfile: "w1.cluster.example slots=8\nw2.cluster.example slots=8\nw3.cluster.example slots=8\n",
		script: `sed -E 's/\t(w[0-9])$/\t\1.cluster.example \1/' /etc/hosts >/tmp/hosts && cat /tmp/hosts >/etc/hosts
sed -E 's/^(w[0-9])([ ,])/\1,\1.cluster.example\2/' /root/.ssh/known_hosts >/tmp/known && cat /tmp/known >/root/.ssh/known_hosts`},
	{name: "IPv6 addresses as well", hostfile: "w1 slots=8\nw2 slots=8\nw3 slots=8\n",
		script: `ip -6 address add "fd00:77::$(hostname -I | cut -d' ' -f1 | cut -d. -f4)/64" dev eth0 nodad`},
	{name: "words on stderr at login", hostfile: "w1 slots=8\nw2 slots=8\nw3 slots=8\n", script: `echo 'echo stty: not a terminal >&2' >>/root/.bashrc`},
	{name: "one more network", hostfile: "w1 slots=8\nw2 slots=8\nw3 slots=8\n",
		script: `ip link add storage0 type bridge && ip address add "192.168.40.$(hostname -I | cut -d' ' -f1 | cut -d. -f4)/24" dev storage0 && ip link set storage0 up`},
	{name: "names of ssh's configuration, through a jump host", hostfile: "n2 slots=8\nn3 slots=8\n",
		script: `printf 'Host n2 n3\n\tProxyJump 10.77.1.1\nHost n2\n\tHostName 10.77.1.2\nHost n3\n\tHostName 10.77.1.3\n' >/root/.ssh/config`},
	{name: "another port of ssh", hostfile: "w1 slots=8\nw2 slots=8\nw3 slots=8\n",
		script: `printf 'Host w*\n\tPort 2222\n' >/root/.ssh/config; sed -E 's/^(w[0-9])[^ ]* /[\1]:2222 /' /root/.ssh/known_hosts >/tmp/ports && cat /tmp/ports >>/root/.ssh/known_hosts; [ ! -e /run/sshd/testhosts.pid ] || /usr/sbin/sshd -p 2222 -o PidFile=/run/sshd/second.pid`},
}

// TestUnusual checks that preflight has nothing to say about healthy clusters, with and without a
// launch command.
func TestUnusual(t *testing.T) {
	cluster := raiseWith(t, testhosts.Options{Name: "unusual", Nodes: 3})
	installDeepSpeed(t, cluster)
	for _, c := range unusual {
		if c.script != "" {
			for _, n := range cluster.Machines() {
				if out, err := n.Run(t.Context(), "/bin/sh", "-c", c.script); err != nil {
					t.Fatalf("%s: %v\n%s", c.name, err, out)
				}
			}
		}
		if err := cluster.Put(testhosts.HostfilePath, []byte(c.hostfile), 0o644); err != nil {
			t.Fatal(err)
		}
		want := []string{}
		if c.warns != "" {
			want = append(want, c.warns)
		}
		report := judge(t, cluster)
		if diff := cmp.Diff(want, short(report.Findings)); report.ExitCode != 0 || diff != "" {
			t.Errorf("%s: exit code %d (-want +got):\n%s", c.name, report.ExitCode, diff)
			for _, f := range report.Findings {
				t.Logf("%s: %s: %s; got %s", c.name, f.Check, f.Summary, f.Got)
			}
		}
		launched, output := judgeLaunch(t, cluster, "", "--hostfile", testhosts.HostfilePath, "--force_multi", "train.py")
		if launched.ExitCode != 0 || len(launched.Findings) > 0 || output == "" {
			t.Errorf("%s, deepspeed: exit code %d (-want +got):\n%s", c.name, launched.ExitCode, cmp.Diff([]string{}, short(launched.Findings)))
			for _, f := range launched.Findings {
				t.Logf("%s, deepspeed: %s: %s; got %s", c.name, f.Check, f.Summary, f.Got)
			}
		}
	}
}
