// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"io"
	"time"
)

// Carrier gets connections to nodes; packages remote/ssh and remote/srun are two. It is safe for
// concurrent use.
type Carrier interface {
	// Dial logs in to a node by the name the hostfile gives it. The Trace is never
	// nil, and an error is always an *Error. ctx bounds the way there and not the
	// connection.
	Dial(ctx context.Context, name string) (Connection, *Trace, error)
	// Files is how many files of this process connections to these nodes keep open.
	Files(names []string) int
	// Close ends what nodes share on the way. Connections are their callers' to close.
	Close() error
}

// Connection is a login on a node. Closing it frees every call that waits for it.
type Connection interface {
	// Start runs a command by the login shell. What it prints on its standard error
	// goes to stderr.
	Start(command string, stderr io.Writer) (*Process, *Error)
	// Alive asks the node's end whether it is there, and returns when it answers or
	// the connection ends.
	Alive() bool
	// Wait returns, when the connection has ended, why.
	Wait() error
	// Broken is what the carrier found to be wrong with the way, and ended the
	// connection for; nil if it did not. Host and Stage are the caller's to fill in.
	Broken() *Error
	// LookOut stands by to look at a node that seems to miss ctx's deadline.
	LookOut(ctx context.Context) Lookout
	Close() error
}

// Lookout looks shortly before a deadline at what a new connection meets.
type Lookout interface {
	// Tell adds what was seen to the failure of a node that froze; nil is none.
	Tell(failure *Error)
	Dismiss()
}

// Process is a command that runs on a node.
type Process struct {
	Stdin  io.WriteCloser
	Stdout io.Reader
	Wait   func() Exit // until it has ended
	// Running says that it is an agent of ours that ran before we came, and greets whoever connects: nothing is
	// delivered, and builds may differ.
	Running bool
}

// Exit is how a command ended.
type Exit struct {
	Status  int    // -1 where there was none
	Signal  string // that ended it, escaped and without SIG; "" for none
	Missing bool   // the node's end said nothing of it
}

// Trace is what was met on the way to a node, filled as far as it went even
// when the way ended early.
type Trace struct {
	Carrier   string   // what reached it where that is not ssh: "srun"
	Options   []string // of the carrier's own program, by which it goes there: "--namespace=ml"
	User      string
	Port      int
	Address   string        // the IP address connected to, "" when none was or a jump host resolved the name
	Via       []string      // jump hosts in the order they are crossed
	Banner    string        // the server's version line
	OpenSSH   []string      // what the system's ssh would have done differently, a sentence each
	Uncalled  string        // why the node's agent did not call us, and was started alone; "" where it did or was not to
	Connected time.Duration // from dialling to being logged in

	Inside    []string // what took our command where the ranks run: docker, exec, -i, train; nil for the node itself
	Noise     []string // what the login printed on stdout before our agent spoke, escaped and cut
	Path      string   // where our binary lies on the node
	Delivered bool     // our binary was pushed by this run
	// Distrusted is the path of a binary that was delivered again, and why what lay there
	// was not run; "" where nothing lay there.
	Distrusted string
	Started    time.Duration // from being logged in to the agent's hello
}
