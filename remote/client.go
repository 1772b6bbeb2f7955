package remote

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"preflight/hostsys"
)

// SSHOptions of a Carrier. Every zero value means the real thing, so that only
// tests and flags fill them in.
type SSHOptions struct {
	Home         string        // whose ~/.ssh; "" = the user's, by the password database
	SystemConfig string        // "" = /etc/ssh/ssh_config; the system's known hosts lie beside it
	AgentSocket  string        // "" = $SSH_AUTH_SOCK
	Port         int           // as ssh -p: wins over the configuration; 0 = as configured
	User         string        // as ssh -l; "" = as configured, else the local user
	Timeout      time.Duration // of one node, from its name to a talking agent; 0 = remote.DefaultTimeout
}

// SSH reaches nodes. It reads the user's ssh configuration once and keeps
// what nodes share: parsed known_hosts files, keys, agents and connections to
// jump hosts. It is safe for concurrent use and must be closed.
type SSH struct {
	options  SSHOptions
	local    account
	config   configFiles
	hostKeys knownHosts
	keys     keyFiles
	agents   agents
	jumps    jumps
	names    *hostsys.Names
}

// account is who we are on this machine; ssh's tokens are made of it.
type account struct {
	name, home, uid, hostname string
}

// NewSSH reads the ssh configuration of the user and of the system. It fails
// where ssh itself would refuse to start: on a line it cannot read, or on a
// user's file that others may write.
func NewSSH(o SSHOptions) (*SSH, error) {
	me, err := user.Current()
	if err != nil {
		return nil, fmt.Errorf("who are we on this machine: %w", err)
	}
	hostname, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("the name of this machine: %w", err)
	}
	if o.Home == "" {
		o.Home = me.HomeDir
	}
	if o.SystemConfig == "" {
		o.SystemConfig = "/etc/ssh/ssh_config"
	}
	if o.AgentSocket == "" {
		o.AgentSocket = os.Getenv("SSH_AUTH_SOCK")
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	c := &SSH{
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
func (c *SSH) Close() error {
	c.jumps.close()
	c.agents.close()
	return nil
}
