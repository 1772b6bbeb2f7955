package remote

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"sync"
	"time"

	"preflight/hostsys"
)

// DefaultTimeout is what one node gets when Options.Timeout is zero.
const DefaultTimeout = 30 * time.Second

// Options of a Client. Every zero value means the real thing, so that only
// tests and flags fill them in.
type Options struct {
	Home         string        // whose ~/.ssh; "" = the user's, by the password database
	SystemConfig string        // "" = /etc/ssh/ssh_config; the system's known hosts lie beside it
	AgentSocket  string        // "" = $SSH_AUTH_SOCK
	Port         int           // as ssh -p: wins over the configuration; 0 = as configured
	User         string        // as ssh -l; "" = as configured, else the local user
	Timeout      time.Duration // of one node, from its name to a talking agent; 0 = DefaultTimeout

	// Binaries finds the executables for a platform, the one to prefer first;
	// nil = our own, and those that `make cross` put beside it.
	Binaries func(goos, arch string) ([]*Binary, error)
	// AgentLife bounds every agent's life, also when the end of our connection
	// never reaches its node; 0 = DefaultAgentLife.
	AgentLife time.Duration
}

// Client reaches nodes. It reads the user's ssh configuration once and keeps
// what nodes share: parsed known_hosts files, keys, agents and connections to
// jump hosts. It is safe for concurrent use and must be closed.
type Client struct {
	options  Options
	local    account
	config   configFiles
	hostKeys knownHosts
	keys     keyFiles
	agents   agents
	jumps    jumps
	names    *hostsys.Names
	offer    func() string // see deliver.go; made when the first node asks
}

// account is who we are on this machine; ssh's tokens are made of it.
type account struct {
	name, home, uid, hostname string
}

// New reads the ssh configuration of the user and of the system. It fails
// where ssh itself would refuse to start: on a line it cannot read, or on a
// user's file that others may write.
func New(o Options) (*Client, error) {
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
	if o.AgentLife == 0 {
		o.AgentLife = DefaultAgentLife
	}
	if o.Binaries == nil {
		o.Binaries = (&siblings{directories: besideUs}).open
	}
	c := &Client{
		options: o,
		names:   hostsys.NewNames(""),
		offer:   sync.OnceValue(func() string { return offer(o.Binaries) }),
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
func (c *Client) Close() error {
	c.jumps.close()
	c.agents.close()
	return nil
}

// Trace is what was met on the way to a node, filled as far as it went even
// when the way ended early.
type Trace struct {
	User      string
	Port      int
	Address   string        // the IP address connected to, "" when none was or a jump host resolved the name
	Via       []string      // jump hosts in the order they are crossed
	Banner    string        // the server's version line
	OpenSSH   []string      // what the system's ssh would have done differently, a sentence each
	Connected time.Duration // from dialling to being logged in

	Noise     []string      // what the login printed on stdout before our agent spoke, escaped and cut
	Path      string        // where our binary lies on the node
	Delivered bool          // our binary was pushed by this run
	Started   time.Duration // from being logged in to the agent's hello
}
