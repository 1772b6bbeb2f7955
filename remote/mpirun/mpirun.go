// SPDX-License-Identifier: Apache-2.0

// Package mpirun carries to the nodes by the mpirun that a launch would use: its daemons go
// where those of the ranks will, by the same ssh or the same Slurm job, and call the launching
// machine back as those will. Every node has an mpirun of its own, so that no node waits for
// another and each failure comes in the words of one mpirun.
//
// It refuses to log in by itself: what keeps mpirun out is what is to be found, and is told in
// the words of mpirun and its ssh. It refuses to allow root what mpirun does not, unless the
// launch does. No password is asked: ssh is told so.
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

// Name is what traces call this carrier.
const Name = "mpirun"

// Carrier starts our program by mpirun.
type Carrier struct {
	engine engine.Engine
	names  *hostsys.Names
	user   string
}

// patience is the time that mpirun has to tell its version.
const patience = 8 * time.Second

// New is a Carrier by the mpirun that PATH leads to; words are those that the launch adds to its
// command. It fails where there is none, or one of nobody we know.
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
	ways := by.kept(words)
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

// Files are those of an mpirun for each node: its three streams, and what tells its end.
func (c *Carrier) Files(names []string) int { return 4 * len(names) }

// Close waits until every mpirun has ended.
func (c *Carrier) Close() error {
	c.engine.Close()
	return nil
}

// Dial only names the node: mpirun goes there with the command. The address is where its name
// leads from here, if anywhere. A user before the name is left to ssh's configuration, as
// Open MPI's option has it.
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
