// SPDX-License-Identifier: Apache-2.0

// Package remote makes typed calls to a preflight that runs on another machine. A [Carrier] logs in
// there (packages remote/ssh and remote/srun). This package then makes sure that the agent is on
// the node, starts it and exchanges messages with it. Every node costs one connection and one
// command. What stops a node on the way is an [Error], which names the step and the cause.
// Everything else that was met on the way is in the [Trace].
//
// The two ends are [Client.Reach], which returns an [Agent] that answers, and [Serve], which is
// that agent. Between them are lines of JSON (wire.go) that do not depend on the carrier.
//
// The command is one constant that every login shell passes on unchanged; what differs from node to
// node is sent on its stdin. The command becomes the agent if a private directory of the node has
// it under the right SHA-256 and with the right size. Otherwise it asks for the binary (deliver.go,
// deliver.sh). The SHA-256 of the content is verified when the binary is installed (install.go).
//
// The package does not know what is asked or what the answers mean. It does not retry: preflight
// exists to find links that work only the second time. It changes nothing on a node except its
// cached agent; it keeps a few builds, and [Client.Clean] removes all of them. And it does not
// trust a node: what a node sends is limited, escaped before it gets into an error, and reported as
// what it is.
package remote

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"preflight/internal/hostsys"
)

// DefaultTimeout is the time limit for one node if Options.Timeout is 0.
const DefaultTimeout = 30 * time.Second

// Options of a Client. Every zero value is the normal setting, so that only tests and flags set
// them.
type Options struct {
	Timeout time.Duration // per node, from name lookup to an agent that answers; 0 = DefaultTimeout

	// Binary returns the executable for a platform; nil means Own.
	Binary func(goos, arch string) (*Binary, error)
	// In returns the words that enter the ranks' container on a node, as Enterable accepts them:
	// docker, exec, -i, train. The agent's command is appended. If In or its result is nil, the
	// agent runs on the node itself.
	In func(name string) []string
	// AgentLife limits every agent's life, even if the end of the connection never reaches its
	// node; 0 means DefaultAgentLife.
	AgentLife time.Duration
	// Nodes is the number of nodes. With many, the default of Beat is longer.
	Nodes int
	Beat  time.Duration // interval of the heartbeats in both directions; 0 = DefaultBeat
}

// Client starts agents on nodes. It is safe for concurrent use and must be closed.
type Client struct {
	carrier Carrier
	options Options
	offer   func() string // see deliver.go; computed when the first node asks
	homes   homes
}

// New returns a Client for the nodes that a carrier reaches. The Client owns the carrier.
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

// Close ends what nodes share. Callers close their agents themselves.
func (c *Client) Close() error { return c.carrier.Close() }

// Reach logs in to name, makes sure that the agent is there and returns it once it answers. It
// takes at most Options.Timeout. The agent ends with ctx.
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

// excused returns err, or a failure that blames this machine if it was too busy to read the node's
// answer in time.
func (c *Client) excused(w hostsys.Wait, err error) error {
	isOver := w.Took() >= c.options.Timeout-LastMoment(c.options.Timeout)
	if failure, ok := errors.AsType[*Error](err); ok && failure.Cause == ShellBroken && isOver {
		return failure.excused(w) // a shell that seems not to have run our command may only have been read too late
	}
	return Excuse(err, w)
}
