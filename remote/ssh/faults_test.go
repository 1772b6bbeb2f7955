// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"net"
	"strings"
	"testing"

	"preflight/remote"
	"preflight/testhosts/carriertest"
	"preflight/testhosts/remotetest"
)

func TestFaults(t *testing.T) {
	var p *person
	raise := func(t *testing.T, logins map[string]string) {
		p = newPerson(t)
		var config []string
		for name, login := range logins {
			stand := &remotetest.Node{Shell: []string{login, "/bin/sh", "-c"}}
			server, key := admits(p.key.PublicKey()), newSigner(t)
			server.AddHostKey(key)
			address, port := listen(t, func(conn net.Conn) { stand.Serve(conn, server) })
			t.Cleanup(stand.Processes.Wait)
			p.knows(&node{address: address, key: key})
			config = append(config, host(name, port))
		}
		p.write("config", strings.Join(config, ""))
	}
	carriertest.Faults(t, carriertest.Stand{Raise: raise, Open: func(*testing.T, map[string]string) remote.Carrier {
		return p.client(Options{AgentSocket: "none"})
	}})
}
