// SPDX-License-Identifier: Apache-2.0

// Package remote gets typed calls to a preflight that runs on another machine: a
// [Carrier] logs in there (packages remote/ssh and remote/srun), and this package sees to it
// that our binary lies on the node, starts it and speaks with it. Every node costs one
// connection and one command. What stops a node on the way is an [Error], which
// names the step and the cause; what was met there is in the [Trace].
//
// The two ends are [Client.Reach], which returns a talking [Agent], and [Serve],
// which is that agent. Between them are lines of JSON (wire.go) that know nothing
// of what carries them.
//
// The command is one constant that every login shell passes on unread; what
// differs from node to node travels on its stdin. It becomes our binary if that
// lies in a private directory of the node under the right SHA-256 and has the right
// size, and asks for it otherwise (deliver.go, deliver.sh). The SHA-256 of the content
// is verified when the binary is installed (install.go).
//
// The package refuses to know what is asked and what the answers mean. It refuses
// to retry: a link that works the second time is what preflight exists to find.
// It refuses to change anything on a node but our own cached binary, of which it keeps
// a few builds and [Client.Clean] removes all. And it does not trust a node: what
// one sends is bounded, escaped before it gets into an error, and named as what it
// is.
package remote

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"preflight/internal/hostsys"
)

// DefaultTimeout is what one node gets when Options.Timeout is zero.
const DefaultTimeout = 30 * time.Second

// Options of a Client. Every zero value means the real thing, so that only
// tests and flags fill them in.
type Options struct {
	Timeout time.Duration // of one node, from its name to a talking agent; 0 = DefaultTimeout

	// Binary returns the executable for a platform; nil = Own.
	Binary func(goos, arch string) (*Binary, error)
	// In is what the ranks run in on a node, as the command behind which ours goes there,
	// its words Enterable: docker, exec, -i, train. nil, of the function and of what it
	// returns, is the node itself.
	In func(name string) []string
	// AgentLife bounds every agent's life, also when the end of our connection
	// never reaches its node; 0 = DefaultAgentLife.
	AgentLife time.Duration
	// Nodes is how many there are. With many, the default of Beat is longer.
	Nodes int
	Beat  time.Duration // how often either end of a talk says that it is there; 0 = DefaultBeat
}

// Client gets agents to work on nodes. It is safe for concurrent use and must be
// closed.
type Client struct {
	carrier Carrier
	options Options
	offer   func() string // see deliver.go; made when the first node asks
	homes   homes
}

// New is a Client of the nodes that a carrier reaches, which it owns from then on.
func New(carrier Carrier, o Options) *Client {
	o.Timeout, o.AgentLife = cmp.Or(o.Timeout, DefaultTimeout), cmp.Or(o.AgentLife, DefaultAgentLife)
	if o.Beat == 0 {
		o.Beat = beatOf(o.Nodes)
	}
	if o.Binary == nil {
		o.Binary = Own
	}
	return &Client{carrier: carrier, options: o, offer: sync.OnceValue(func() string { return offer(o.Binary) })}
}

// Close ends what nodes share. Agents are their callers' to close.
func (c *Client) Close() error { return c.carrier.Close() }

// Reach logs in to name, makes sure that our binary is there and returns its
// talking agent. It takes at most Options.Timeout. The agent ends with ctx.
//
// The error is an *Error. The Trace is never nil.
func (c *Client) Reach(ctx context.Context, name string) (*Agent, *Trace, error) {
	w := hostsys.BeginWait()
	reach, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	client, trace, err := c.carrier.Dial(reach, name)
	if err != nil {
		return nil, trace, c.excused(w, err)
	}
	agent, failure := c.bootstrap(reach, client, name, trace)
	if failure != nil {
		return nil, trace, c.excused(w, failure)
	}
	agent.tieTo(ctx)
	return agent, trace, nil
}

// excused returns a failure to reach a node, or one that blames this machine if it was too busy to hear the node in time.
func (c *Client) excused(w hostsys.Wait, err error) error {
	isOver := w.Took() >= c.options.Timeout-LastMoment(c.options.Timeout)
	if failure, is := errors.AsType[*Error](err); is && failure.Cause == ShellBroken && isOver {
		return failure.excused(w) // a shell that has not run our command may only have been heard too late
	}
	return Excuse(err, w)
}
