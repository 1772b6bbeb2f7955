// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"io"
	"time"
)

// Carrier connects to nodes. Packages remote/ssh and remote/srun contain two implementations. A
// Carrier is safe for concurrent use.
type Carrier interface {
	// Dial logs in to a node by its name in the hostfile. The Trace is never nil, and an error is
	// always an *Error. ctx limits the login and not the connection.
	Dial(ctx context.Context, name string) (Connection, *Trace, error)
	// Files returns how many files this process keeps open for the connections to these nodes.
	Files(names []string) int
	// Close closes what connections share. Callers close their connections themselves.
	Close() error
}

// Connection is a login on a node. Closing it makes every waiting call return.
type Connection interface {
	// Start runs a command through the login shell. The command's standard error goes to stderr.
	Start(command string, stderr io.Writer) (*Process, *Error)
	// Alive asks the node's end for a sign of life. It returns when the node's end answers or the
	// connection ends.
	Alive() bool
	// Wait returns when the connection has ended. The error is the reason.
	Wait() error
	// Broken returns the fault on the path for which the carrier ended the connection. It returns
	// nil if the carrier did not end it. The caller fills in Host and Stage.
	Broken() *Error
	// LookOut prepares to examine a node that seems likely to miss ctx's deadline.
	LookOut(ctx context.Context) Lookout
	Close() error
}

// Lookout tries a new connection shortly before a deadline.
type Lookout interface {
	// Tell adds the result of the attempt to the failure of a frozen node. failure may be nil.
	Tell(failure *Error)
	Dismiss()
}

// Process is a command that runs on a node.
type Process struct {
	Stdin  io.WriteCloser
	Stdout io.Reader
	Wait   func() Exit // returns after the command has ended
	// Running means that this is an agent that already ran before the connection and says hello to
	// every caller. Nothing is delivered to such an agent, and its build may differ from ours.
	Running bool
}

// Exit says how a command ended.
type Exit struct {
	Status  int    // -1 if there is no exit status
	Signal  string // name of the signal that ended the command, escaped and without SIG; "" for none
	Missing bool   // the node's end did not report how the command ended
}

// Trace records how a node was reached. If that failed, it holds what was known until then.
type Trace struct {
	Carrier   string   // the carrier if it is not ssh: "srun"
	Options   []string // options passed to the carrier's program: "--namespace=ml"
	User      string
	Port      int
	Address   string        // the IP address of the connection, "" for none or if a jump host resolved the name
	Via       []string      // jump hosts in the order of the connection
	Banner    string        // the server's version line
	OpenSSH   []string      // what the system's ssh would have done differently, one sentence each
	Uncalled  string        // why the node's agent did not call back and got an srun of its own; "" if it called back or was not asked to
	Connected time.Duration // time from dialling to login

	Inside    []string // the command that enters the ranks' container: docker, exec, -i, train; nil for the node itself
	Noise     []string // what the login printed on stdout before the agent's hello, escaped and shortened
	Path      string   // where the agent is stored on the node
	Delivered bool     // this run copied the agent to the node
	// Distrusted is the path of a cached agent and the reason why it was not run, so that the agent
	// was delivered again. It is "" if there was no such file.
	Distrusted string
	Started    time.Duration // time from login to the agent's hello
}
