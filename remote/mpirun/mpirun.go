// SPDX-License-Identifier: Apache-2.0

// Package mpirun reaches the nodes with the mpirun that a launch would use. Its daemons start like
// those of the ranks, over the same ssh or in the same Slurm job, and connect back to the launching
// machine in the same way. Every node has an mpirun of its own. No node then waits for another, and
// each failure has the messages of one mpirun.
//
// The package does not log in by itself, because it must find what stops mpirun, in the words of
// mpirun and its ssh. It does not allow root unless the launch does. It tells ssh to ask for no
// password.
package mpirun

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strings"
	"time"

	"preflight/hostfile"
	"preflight/internal/hostsys"
	"preflight/internal/text"
	"preflight/remote"
	"preflight/remote/engine"
)

// Name is this carrier's name in traces.
const Name = "mpirun"

// Carrier starts the agent with mpirun.
type Carrier struct {
	engine engine.Engine
	names  *hostsys.Names
	user   string
}

// patience is the time limit for mpirun to print its version.
const patience = 8 * time.Second

// New returns a Carrier for the mpirun in PATH. words are the options that the launch adds to its
// command. New fails if mpirun is not in PATH or is of an unknown implementation.
func New(words []string) (*Carrier, error) {
	program, err := exec.LookPath("mpirun")
	if err != nil {
		return nil, fmt.Errorf("it needs mpirun in PATH: %w", err)
	}
	version, complaint, err := hostsys.Child{Path: program, Args: []string{"--version"}, Limit: patience}.Run(context.Background())
	if err != nil {
		return nil, fmt.Errorf("%s --version: %w: %s", program, err, text.Escape(firstLine(complaint)))
	}
	by := kindOf(version)
	if by == nil {
		return nil, fmt.Errorf("%s is neither Open MPI's mpirun nor Hydra (MPICH, Intel MPI): its version is %q", program, text.Escape(firstLine(version)))
	}
	c := &Carrier{names: hostsys.NewNames("")}
	if me, err := user.Current(); err == nil {
		c.user = me.Username
	}
	ways := by.daemonArgs(words)
	c.engine = engine.Engine{
		Name: Name,
		Program: func(node string, argv []string) *exec.Cmd {
			cmd := exec.Command(program, by.argv(node, ways, argv)...)
			cmd.Env = by.environ(os.Environ())
			return cmd
		},
		Sheds: ofRank, Explain: explain, Hangs: true,
		Silent: "a firewall of the launching machine may drop what mpirun's daemon sends from there",
	}
	return c, nil
}

// Files counts the files of one mpirun per node: its three streams, and the file that reports its
// end.
func (c *Carrier) Files(names []string) int { return 4 * len(names) }

// Close waits until every mpirun has ended.
func (c *Carrier) Close() error {
	c.engine.Close()
	return nil
}

// Dial only looks up the address to which the node's name resolves on the launching machine, if
// any. mpirun connects to the node when the command starts. Dial drops a user name before the host
// and leaves it to ssh's configuration, as with Open MPI's option.
func (c *Carrier) Dial(ctx context.Context, name string) (remote.Connection, *remote.Trace, error) {
	trace := &remote.Trace{Carrier: Name, User: c.user}
	host := hostfile.Bare(name)
	trace.Address = engine.Address(ctx, c.names, host)
	if err := ctx.Err(); err != nil {
		return nil, trace, &remote.Error{Host: name, Stage: remote.StageResolve, Cause: remote.Interrupted, Err: context.Cause(ctx)}
	}
	return c.engine.Connect(host), trace, nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line[:min(len(line), 200)]
}
