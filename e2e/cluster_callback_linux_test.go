// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/testhosts"
)

// mpiruns maps MPI implementations to stand-ins for mpirun that print a version and start nothing.
var mpiruns = map[string]string{
	"openmpi": "#!/bin/sh\necho 'mpirun (Open MPI) 4.1.4'\n",
	"mpich":   "#!/bin/sh\necho 'HYDRA build details:'\necho '    Version: 4.0.2'\n",
	"pdsh":    "#!/bin/sh\nexit 1\n",
}

// TestCallBack tests the check launcher-callback. The programs that mpirun starts on the nodes must
// reach the launching machine at the addresses, the name and the ports that mpirun gives them.
func TestCallBack(t *testing.T) {
	cluster := raise(t, "callback")
	everybody := []string{"fail launcher-callback [w1 w2 w3 w4]"}
	shut := func(n *testhosts.Node) (testhosts.Undo, error) { return n.Drop(testhosts.Ephemeral) }
	for _, test := range []struct {
		name, launcher string
		where          string
		plant          plant
		env            string
		want           []string
	}{
		{"healthy", "openmpi", "", nil, "", []string{}},
		{"healthy", "mpich", "", nil, "", []string{}},
		{"a firewall", "openmpi", "head", shut, "", everybody},
		{"a firewall", "mpich", "head", shut, "", everybody},
		{"a firewall that nobody calls through", "pdsh", "head", shut, "", []string{}},
		{"a firewall that opens the ports", "mpich", "head", shut, "MPIEXEC_PORT_RANGE=20000:20010", []string{}},
		{"a firewall against one node", "openmpi", "head", func(n *testhosts.Node) (testhosts.Undo, error) {
			return n.DropFrom(cluster.Nodes[2], testhosts.Ephemeral)
		}, "", []string{"fail launcher-callback [w3]"}},
		{"an address that no node reaches", "openmpi", "head", (*testhosts.Node).AddDocker0First, "", []string{}},
		{"an interface that no node reaches", "mpich", "head", (*testhosts.Node).AddDocker0, "HYDRA_IFACE=docker0", everybody},
		{"the name is unknown", "mpich", "w2", func(n *testhosts.Node) (testhosts.Undo, error) { return n.ForgetName(cluster.Head.Name) }, "",
			[]string{"fail launcher-callback [w2]"}}, // no name server is reachable
		{"the name is the node's own loopback", "mpich", "w2", func(n *testhosts.Node) (testhosts.Undo, error) {
			return n.WrongHosts(cluster.Head.Name, "127.0.1.1")
		}, "", []string{"fail launcher-callback [w2]"}},
		{"the name leads to nobody", "mpich", "w2", func(n *testhosts.Node) (testhosts.Undo, error) {
			return n.WrongHosts(cluster.Head.Name, "10.77.250.1")
		}, "", []string{"fail launcher-callback [w2]"}},
		{"the name is unknown and not used", "openmpi", "w2", func(n *testhosts.Node) (testhosts.Undo, error) { return n.ForgetName(cluster.Head.Name) }, "", []string{}},
	} {
		t.Run(test.launcher+"/"+test.name, func(t *testing.T) {
			if err := cluster.Head.WriteFile("/root/bin/mpirun", []byte(mpiruns[test.launcher]), 0o755); err != nil {
				t.Fatal(err)
			}
			if test.plant != nil {
				plantOn(t, cluster, test.where, test.plant)
			}
			cmd := cluster.OnHead(t.Context(), binary(t), "-H", testhosts.HostfilePath, "--accelerator", "cpu", "--format", "json", "--launcher", test.launcher, "--only", "launcher-callback")
			cmd.Env = slices.Concat(cmd.Env, []string{"PATH=/root/bin:/usr/bin:/bin", test.env})
			if diff := cmp.Diff(test.want, short(reported(t, cmd).Findings)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
