// SPDX-License-Identifier: Apache-2.0

// Package remote makes typed calls to a preflight that runs on another machine. A [Carrier] logs in
// to that machine (packages remote/ssh and remote/srun). Package remote then makes sure that the
// agent is on the node, starts it and exchanges messages with it. Every node costs one connection
// and one command. If reaching a node fails, the [Error] names the step and the cause. The [Trace]
// records everything else about the way to the node.
//
// The two ends are [Client.Reach], which returns an [Agent] that answers, and [Serve], which is
// that agent. They exchange lines of JSON (wire.go) that do not depend on the carrier.
//
// The command is one constant that every login shell passes on unchanged. Values that differ from
// node to node are sent on its stdin. The command becomes the agent if a private directory of the
// node has the agent under the right SHA-256 and with the right size. Otherwise it asks for the
// binary (deliver.go, deliver.sh). The SHA-256 of the content is verified when the binary is
// installed (install.go).
//
// The package does not know what is asked or what the answers mean. It does not retry, because
// preflight exists to find links that work only the second time. It changes nothing on a node
// except its cached agent. It keeps a few builds, and [Client.Clean] removes all of them. The
// package does not trust a node: text from a node is limited, escaped before it gets into an error,
// and reported as text from a node.
package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"strconv"
	"sync"
	"time"

	"preflight/internal/hostsys"
)

// DefaultTimeout is the time limit for one node if Options.Timeout is 0.
const DefaultTimeout = 30 * time.Second

// Options configures a Client. Every zero value is the normal setting, so that only tests and flags
// set fields.
type Options struct {
	Timeout time.Duration // limit per node, from name lookup to an agent that answers; 0 = DefaultTimeout

	// Binary returns the executable for a platform. If Binary is nil, Own is used.
	Binary func(goos, arch string) (*Binary, error)
	// In returns the words that enter the ranks' container on a node, in the form that Enterable
	// accepts: docker, exec, -i, train. The agent's command is appended to these words. If In or
	// its result is nil, the agent runs on the node itself.
	In func(name string) []string
	// AgentLife limits every agent's life, even if the node never learns that the connection has
	// ended. 0 means DefaultAgentLife.
	AgentLife time.Duration
	// Nodes is the number of nodes. With many nodes, the default of Beat is longer.
	Nodes int
	Beat  time.Duration // interval of the heartbeats in both directions; 0 = DefaultBeat
}

// Client starts agents on nodes. It is safe for concurrent use and must be closed.
type Client struct {
	carrier Carrier
	options Options
	offer   func() string // see deliver.go; computed when the first node asks for it
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

// Close closes the connections that nodes share. Callers close their agents themselves.
func (c *Client) Close() error { return c.carrier.Close() }

// Reach logs in to a node, makes sure that the agent is there, and returns the agent once it
// answers. It takes at most Options.Timeout. The agent ends when ctx ends.
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

// excused returns err, or a failure that blames the launching machine if that machine was too busy
// to read the node's answer in time.
func (c *Client) excused(w hostsys.Wait, err error) error {
	isOver := w.Took() >= c.options.Timeout-LastMoment(c.options.Timeout)
	if failure, ok := errors.AsType[*Error](err); ok && failure.Cause == ShellBroken && isOver {
		return failure.excused(w) // our command may have run, and its output was only read too late
	}
	return Excuse(err, w)
}

const (
	// onTheWay is the maximum number of files that are open while a node is being reached, besides
	// those of its connection. They are the queries to name servers, files that are read (a key,
	// known_hosts), and the second connection to a node that hangs.
	onTheWay = 8
	// spareFiles is the number of files left for the rest of a run: its own listeners and children,
	// and the files that it writes.
	spareFiles = 16
)

// Fit returns how many nodes may be reached at the same time without exceeding this process's limit
// on open files, but no more than most. If stay is set, the files of all connected nodes count
// together. The error means that not even one node at a time fits. No node may be reached then.
func (c *Client) Fit(names []string, stay bool, most int) (atOnce int, err *Error) {
	open, limit, ok := hostsys.OpenFiles()
	if !ok || len(names) == 0 {
		return most, nil
	}
	kept := c.carrier.Files(names)
	each := onTheWay
	if !stay {
		each, kept = onTheWay+(kept+len(names)-1)/len(names), 0
	}
	need := open + kept + spareFiles + each
	if need > limit {
		return 1, &Error{
			Stage: StageConnect, Cause: HeadLimit,
			Detail: map[string]string{"files": strconv.Itoa(1 << bits.Len(uint(need)))},
			Err:    fmt.Errorf("its limit on open files is %d, and %d nodes need %d", limit, len(names), need),
		}
	}
	return min(most, 1+(limit-need)/each), nil
}

// Short returns the failure if err means that the launching machine has reached a limit, nil for
// other errors.
func Short(stage Stage, err error) *Error {
	of := hostsys.Shortage(err)
	if of == "" {
		return nil
	}
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		err = call // without the node's address, so that equal failures of many nodes are grouped
	}
	return &Error{Stage: stage, Cause: HeadLimit, Err: fmt.Errorf("it has run out of %s (%w)", of, err)}
}
