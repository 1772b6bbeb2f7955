// SPDX-License-Identifier: Apache-2.0

// Package ssh carries to nodes over SSH, as the system's own ssh would: it reads
// the same configuration, verifies the host key as OpenSSH does, offers the same keys,
// and goes through the same jump hosts. What ssh would have done otherwise is in the
// [remote.Trace], because the launch goes through ssh.
//
// It refuses to ask for a password or a passphrase, to believe a host key that
// OpenSSH would not, and to write to any file of the user. A second connection is
// made only to a node that hangs, to find out why (path.go), and nothing else is done
// over it.
package ssh

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"preflight/internal/hostsys"
	"preflight/remote"
)

// Options of a Carrier. Every zero value means the real thing, so that only
// tests and flags fill them in.
type Options struct {
	Home         string        // whose ~/.ssh; "" = the user's, by the password database
	SystemConfig string        // "" = /etc/ssh/ssh_config; the system's known hosts lie beside it
	AgentSocket  string        // "" = $SSH_AUTH_SOCK
	Port         int           // as ssh -p: wins over the configuration; 0 = as configured
	User         string        // as ssh -l; "" = as configured, else the local user
	Timeout      time.Duration // of one node, from its name to a talking agent; 0 = remote.DefaultTimeout
}

// Carrier reaches nodes. It reads the user's ssh configuration once and keeps
// what nodes share: parsed known_hosts files, keys, agents and connections to
// jump hosts. It is safe for concurrent use and must be closed.
type Carrier struct {
	options  Options
	local    account
	config   configFiles
	hostKeys knownHosts
	keys     cache[string, *identity]
	agents   cache[string, *sshAgent]
	jumps    jumps
	names    *hostsys.Names
}

// account is who we are on this machine; ssh's tokens are made of it.
type account struct {
	name, home, uid, hostname string
}

// New reads the ssh configuration of the user and of the system. It fails
// where ssh itself would refuse to start: on a line it cannot read, or on a
// user's file that others may write.
func New(o Options) (*Carrier, error) {
	me, err := user.Current()
	if err != nil {
		return nil, fmt.Errorf("user ID %d has no entry in /etc/passwd, and ssh refuses to start without one (No user exists for uid %d): add the entry, or mount the host's /etc/passwd into the container (%w)", os.Getuid(), os.Getuid(), err)
	}
	hostname, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("the name of this machine: %w", err)
	}
	o.Home = cmp.Or(o.Home, me.HomeDir)
	o.SystemConfig = cmp.Or(o.SystemConfig, "/etc/ssh/ssh_config")
	o.AgentSocket = cmp.Or(o.AgentSocket, os.Getenv("SSH_AUTH_SOCK"))
	o.Timeout = cmp.Or(o.Timeout, remote.DefaultTimeout)
	c := &Carrier{
		options: o,
		names:   hostsys.NewNames(""),
		local:   account{name: me.Username, home: o.Home, uid: me.Uid, hostname: hostname},
	}
	c.config, err = readConfig(filepath.Join(o.Home, ".ssh", "config"), o.SystemConfig, o.Home)
	if err != nil {
		return nil, err
	}
	c.jumps.life, c.jumps.end = context.WithCancel(context.Background())
	return c, nil
}

// Close ends the connections that nodes share. Connections to nodes are
// their callers' to close.
func (c *Carrier) Close() error {
	c.jumps.close()
	c.agents.each((*sshAgent).close)
	return nil
}
