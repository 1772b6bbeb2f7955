// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"io"
	"time"
)

// Carrier connects to nodes; packages remote/ssh and remote/srun are two implementations. It is
// safe for concurrent use.
type Carrier interface {
	// Dial logs in to a node by its name in the hostfile. The Trace is never nil, and an error is
	// always an *Error. ctx limits the login and not the connection.
	Dial(ctx context.Context, name string) (Connection, *Trace, error)
	// Files returns how many files of this process the connections to these nodes keep open.
	Files(names []string) int
	// Close ends what connections share. Callers close their connections themselves.
	Close() error
}

// Connection is a login on a node. Closing it releases every call that waits for it.
type Connection interface {
	// Start runs a command through the login shell. Its standard error goes to stderr.
	Start(command string, stderr io.Writer) (*Process, *Error)
	// Alive asks the node's end for a sign of life, and returns when it answers or the connection
	// ends.
	Alive() bool
	// Wait returns the reason when the connection has ended.
	Wait() error
	// Broken returns the fault on the path for which the carrier ended the connection, nil if it
	// did not. The caller fills in Host and Stage.
	Broken() *Error
	// LookOut prepares to examine a node that seems to miss ctx's deadline.
	LookOut(ctx context.Context) Lookout
	Close() error
}

// Lookout tries a new connection shortly before a deadline.
type Lookout interface {
	// Tell adds the result to the failure of a frozen node; failure may be nil.
	Tell(failure *Error)
	Dismiss()
}

// Process is a command that runs on a node.
type Process struct {
	Stdin  io.WriteCloser
	Stdout io.Reader
	Wait   func() Exit // returns after the command has ended
	// Running is set if this is an agent that already ran before the connection and greets every
	// caller. Nothing is delivered then, and builds may differ.
	Running bool
}

// Exit is how a command ended.
type Exit struct {
	Status  int    // -1 if there is none
	Signal  string // the signal that ended it, escaped and without SIG; "" for none
	Missing bool   // the node's end did not report it
}

// Trace is what was met on the way to a node. It is filled in as far as the way went, even if it
// failed.
type Trace struct {
	Carrier   string   // how the node was reached if not over ssh: "srun"
	Options   []string // options passed to that program: "--namespace=ml"
	User      string
	Port      int
	Address   string        // the IP address connected to, "" for none or if a jump host resolved the name
	Via       []string      // jump hosts in order
	Banner    string        // the server's version line
	OpenSSH   []string      // what the system's ssh would have done differently, one sentence each
	Uncalled  string        // why the node's agent did not call back and got an srun of its own; "" if it did, or was not asked to
	Connected time.Duration // from dialling to login

	Inside    []string // the command that enters the ranks' container: docker, exec, -i, train; nil for the node itself
	Noise     []string // what the login printed on stdout before the agent's hello, escaped and shortened
	Path      string   // where the agent is stored on the node
	Delivered bool     // this run copied the agent to the node
	// Distrusted is the path of a cached agent and why it was not run, so that it was delivered
	// again; "" if there was none.
	Distrusted string
	Started    time.Duration // from login to the agent's hello
}
