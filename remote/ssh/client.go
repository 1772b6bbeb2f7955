// SPDX-License-Identifier: Apache-2.0

// Package ssh reaches nodes over SSH as the system's own ssh would. It reads the same
// configuration, verifies the host key as OpenSSH does, offers the same keys, and goes through the
// same jump hosts. Differences from ssh are recorded in the [remote.Trace], because the launch uses
// ssh.
//
// The package asks for no password or passphrase, accepts no host key that OpenSSH would reject,
// and writes to no file of the user. It makes a second connection only to a node that hangs, to
// find out why (path.go), and uses it for nothing else.
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

// Options configures a Carrier. Every zero value is the normal setting, so that only tests and
// flags set fields.
type Options struct {
	Home         string        // the home directory whose .ssh is used; "" = the user's, from the password database
	SystemConfig string        // "" = /etc/ssh/ssh_config; the system's known hosts are in the same directory
	AgentSocket  string        // "" = $SSH_AUTH_SOCK
	Port         int           // overrides the configuration like ssh -p; 0 = as configured
	User         string        // overrides the configuration like ssh -l; "" = as configured, else the local user
	Timeout      time.Duration // limit per node, from name lookup to an agent that answers; 0 = remote.DefaultTimeout
}

// Carrier reaches nodes over ssh. It reads the user's ssh configuration once. It keeps the values
// that nodes share: parsed known_hosts files, keys, agents and connections to jump hosts. It is
// safe for concurrent use and must be closed.
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

// account is the local user. Several of ssh's tokens expand to its fields.
type account struct {
	name, home, uid, hostname string
}

// New reads the ssh configuration of the user and of the system. It fails where ssh itself would
// refuse to start: on a line that it cannot parse, or if other users may write the user's file.
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

// Close closes the connections that nodes share. Callers close the connections to nodes.
func (c *Carrier) Close() error {
	c.jumps.close()
	c.agents.each((*sshAgent).close)
	return nil
}
