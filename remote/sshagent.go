package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// agentPatience is how long an ssh-agent may take to list its keys before we
// go on without them. It is shorter than any sensible node timeout, so that a
// hung agent shows as a hung agent and not as a dead fleet.
const agentPatience = 5 * time.Second

var errAgentSilent = errors.New("the ssh-agent did not answer in time")

// agents keeps a connection to every ssh-agent that some host asked for. Each
// is asked for its keys once.
type agents struct {
	mu   sync.Mutex
	open map[string]*sshAgent
}

// sshAgent is one agent and what it holds, settled when listed is closed.
type sshAgent struct {
	listed chan struct{}
	conn   net.Conn
	keys   []*identity
	err    error
}

// list gives the agent's keys in its own order. No socket means no agent,
// which is no error.
func (a *agents) list(ctx context.Context, socket string) ([]*identity, error) {
	if socket == "" {
		return nil, nil
	}
	a.mu.Lock()
	if a.open == nil {
		a.open = map[string]*sshAgent{}
	}
	one := a.open[socket]
	if one == nil {
		one = &sshAgent{listed: make(chan struct{})}
		one.conn, one.err = net.DialTimeout("unix", socket, agentPatience)
		a.open[socket] = one
		go one.ask()
	}
	a.mu.Unlock()
	select {
	case <-one.listed:
		return one.keys, one.err
	case <-ctx.Done():
		return nil, errAgentSilent
	}
}

// ask lists the keys. Closing the connection is what ends a hung agent's
// silence, for this call and for every signature after it.
func (a *sshAgent) ask() {
	defer close(a.listed)
	if a.err != nil {
		return
	}
	patience := time.AfterFunc(agentPatience, func() { a.conn.Close() })
	signers, err := agent.NewClient(a.conn).Signers()
	if !patience.Stop() {
		err = fmt.Errorf("%w: %v; ssh would wait for it without end", errAgentSilent, agentPatience)
	}
	if err != nil {
		a.err = err
		return
	}
	for _, signer := range signers {
		public, err := ssh.ParsePublicKey(signer.PublicKey().Marshal())
		if err != nil {
			continue // a kind of key that x/crypto does not know
		}
		from := "agent"
		if key, ok := signer.PublicKey().(*agent.Key); ok && key.Comment != "" {
			from += ": " + key.Comment
		}
		a.keys = append(a.keys, &identity{public: public, signer: signer, from: from})
	}
}

func (a *agents) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range a.open {
		if one.conn != nil {
			one.conn.Close()
		}
		<-one.listed
	}
}
