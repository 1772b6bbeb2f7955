// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

// noIMEX is the result on a machine without IMEX.
var noIMEX = &facts.IMEX{Channels: []facts.DeviceNode{}, PeersUnread: "there is no " + imexNodes}

// TestIMEX covers a tray of a rack. It has a channel, the service, and the list that the service's
// configuration names.
func TestIMEX(t *testing.T) {
	o := probetest.Write(t, machine.Options{}, map[string]string{
		imexChannels + "/channel0":    "",
		imexChannels + "/channel12":   "",
		imexChannels + "/not-channel": "",
		"/proc/4711/comm":             "nvidia-imex\n",
		imexConfig:                    "# IMEX_NODE_CONFIG_FILE=/etc/old\nSERVER_PORT=50000\nIMEX_NODE_CONFIG_FILE=/etc/nvidia-imex/rack.cfg\n",
		"/etc/nvidia-imex/rack.cfg":   "# the trays\n10.0.0.2\n10.0.0.1  # the first\n\n10.0.0.2\n",
		imexNodes:                     "10.9.9.9\n",
	})
	for _, dir := range []string{"/usr/bin", "/run/systemd/system"} {
		if err := os.MkdirAll(o.At(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	probetest.Program(t, o.At("/usr/bin/nvidia-imex"), "#!/bin/sh\n")
	probetest.Program(t, o.At("/usr/bin/systemctl"), "#!/bin/sh\n[ \"$*\" = 'show -p ActiveState nvidia-imex' ] && echo ActiveState=active\n")
	t.Setenv("PATH", o.At("/usr/bin"))
	want := &facts.IMEX{
		Channels:  []facts.DeviceNode{{Path: imexChannels + "/channel0"}, {Path: imexChannels + "/channel12"}},
		Installed: true, State: "active", Running: true, Peers: []string{"10.0.0.1", "10.0.0.2"},
	}
	if diff := cmp.Diff(want, imex(t.Context(), o)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestIMEXPeersUnread(t *testing.T) {
	o := probetest.Write(t, machine.Options{}, map[string]string{imexConfig: "IMEX_NODE_CONFIG_FILE=/run/imex/nodes\n"})
	if peers, unread := imexPeers(o); peers != nil || unread != "there is no /run/imex/nodes" {
		t.Errorf("%q, %q", peers, unread)
	}
	if err := os.MkdirAll(o.At("/run/imex/nodes"), 0o755); err != nil {
		t.Fatal(err)
	}
	if peers, unread := imexPeers(o); peers != nil || unread != "/run/imex/nodes: is a directory" {
		t.Errorf("%q, %q", peers, unread)
	}
}
