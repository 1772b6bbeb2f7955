// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"preflight"
	"preflight/cmd/preflight/internal/agents"
	"preflight/cmd/preflight/internal/inside"
	"preflight/cmd/preflight/internal/usage"
	"preflight/hostfile"
	"preflight/launch"
	"preflight/remote"
	"preflight/remote/kubectl"
	"preflight/remote/meet"
	"preflight/remote/mpirun"
	"preflight/remote/srun"
	"preflight/remote/ssh"
)

// viaAuto is srun for a Slurm job of these nodes, where the launch goes that way, or goes not by
// ssh either and one of the first refuses that; and ssh everywhere else: where ranks are
// started by it, it is what is to be judged.
const viaAuto = "auto"

// triedFirst is how many nodes are tried for ssh before anything is started: nothing is
// started twice to find out. firstPatience is for each.
const (
	triedFirst    = 3
	firstPatience = 3 * time.Second
)

// automatic is the carrier that auto stands for, and what keeps it from being ssh where nobody had
// to ask for another.
func (c *Config) automatic(ctx context.Context, p launch.Prediction) (name string, refusal error) {
	if _, err := exec.LookPath(srun.Name); err != nil || !p.SlurmJob {
		return sshName, nil
	}
	job, err := hostfile.Expand(c.slurm.Nodes)
	outside := func(host hostfile.Host) bool { return !slices.Contains(job, hostfile.Bare(host.Name)) }
	switch {
	case err != nil || len(p.Hosts) == 0 || slices.ContainsFunc(p.Hosts, outside):
		return sshName, nil
	case p.StartedBy().Name == "slurm":
		return srun.Name, nil
	case p.StartedBy().SSH:
		return sshName, nil
	}
	by, err := ssh.New(ssh.Options{Port: p.SSHPort, Timeout: firstPatience})
	if err != nil { // whoever goes by ssh is told
		return sshName, nil
	}
	defer by.Close()
	for _, host := range p.Hosts[:min(len(p.Hosts), triedFirst)] {
		if err := refuses(ctx, by, host.Name); err != nil {
			return srun.Name, err
		}
	}
	return sshName, nil
}

// refusals are a node's own words that ssh is not for this account, or not at all. What is wrong with a
// key, or goes unanswered, is found by going there.
var refusals = []remote.Cause{remote.Refused, remote.NoJob, remote.AccountClosed, remote.KeysRefused, remote.PasswordOnly}

// refuses is how a node refuses a login by ssh, nil where it does not.
func refuses(ctx context.Context, by remote.Carrier, name string) error {
	ctx, cancel := context.WithTimeout(ctx, firstPatience)
	defer cancel()
	connection, _, err := by.Dial(ctx, name)
	if err == nil {
		connection.Close()
	}
	if failure, is := errors.AsType[*remote.Error](err); is && slices.Contains(refusals, failure.Cause) {
		return failure
	}
	return nil
}

const sshName = "ssh"

// carrier is a value of --via.
type carrier struct {
	name string
	open func(*Config, preflight.Plan) (remote.Carrier, error)
}

// carriers are what can take us to the nodes.
var carriers = []carrier{
	{sshName, func(c *Config, plan preflight.Plan) (remote.Carrier, error) {
		return ssh.New(ssh.Options{Port: plan.Prediction.SSHPort, Timeout: c.Timeout})
	}},
	{srun.Name, func(c *Config, plan preflight.Plan) (remote.Carrier, error) {
		carrier, err := srun.New(launch.HostNames(plan.Prediction.Hosts), srun.Options{
			Job: c.slurm, Container: c.pyxis(), Timeout: c.Timeout, Callback: c.Callback, Binary: agents.Open,
			Alone: c.cleans || c.In != "" || len(c.Stated.In) > 0,
		})
		if err != nil {
			return nil, usage.WithHint(fmt.Errorf("--via srun: %w", err), "start a job: salloc --nodes N preflight --via srun; or name your running job: preflight --jobid 118 --via srun; or use ssh: leave --via out")
		}
		return carrier, nil
	}},
	{mpirun.Name, func(_ *Config, plan preflight.Plan) (remote.Carrier, error) {
		carrier, err := mpirun.New(plan.Prediction.LauncherArgs)
		if err != nil {
			return nil, usage.WithHint(fmt.Errorf("--via mpirun: %w", err), "put the launch's mpirun into PATH, or leave --via out to use ssh")
		}
		return carrier, nil
	}},
	{kubectl.Name, func(c *Config, _ preflight.Plan) (remote.Carrier, error) { return c.pods, nil }},
	{meet.Name, func(c *Config, plan preflight.Plan) (remote.Carrier, error) { return c.meet(plan) }},
}

func viaNames() []string {
	names := []string{viaAuto}
	for _, by := range carriers {
		names = append(names, by.name)
	}
	return names
}

// carrier is what --via names, whose value has been held to the choices.
func (c *Config) carrier(ctx context.Context, plan preflight.Plan) (remote.Carrier, error) {
	name := c.Via
	if name == viaAuto || name == "" {
		var refusal error
		if name, refusal = c.automatic(ctx, plan.Prediction); refusal != nil && !c.Quiet {
			fmt.Fprintf(os.Stderr, "preflight: using srun, as the launch does, because ssh failed: %v (to use ssh anyway: --via ssh)\n", refusal)
		}
	}
	i := slices.IndexFunc(carriers, func(by carrier) bool { return by.name == name })
	return carriers[i].open(c, plan)
}

var viaUsage = "how to reach the nodes: " + strings.Join(viaNames(), ", ")

// enterable is the rule of --in.
func enterable(text string) error {
	_, err := inside.Words(text)
	return err
}

// inside is what the ranks run in on a node: what --in says, else what the file says of that
// node, the last that does.
func (c Config) inside() func(node string) []string {
	if words, _ := inside.Words(c.In); words != nil || c.places["in"] != "" { // held to its rule before
		return func(node string) []string { return inside.Of(words, node) }
	}
	return func(node string) []string {
		for _, in := range slices.Backward(c.Stated.In) {
			if in.Nodes == nil || slices.Contains(in.Nodes, node) {
				return inside.Of(in.Words, node)
			}
		}
		return nil
	}
}
