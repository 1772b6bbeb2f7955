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

// viaAuto means srun or ssh. It means srun only in a Slurm job that has all nodes of the launch. In
// addition, the launch must use srun, or it must not use ssh and one of the first nodes must refuse
// ssh. In all other cases it means ssh, because preflight must check ssh for a launch that uses
// ssh.
const viaAuto = "auto"

// sshProbes is the number of nodes on which autoCarrier tries an ssh login before the run. It
// starts nothing on these nodes. sshProbeTimeout is the time limit for each node.
const (
	sshProbes       = 3
	sshProbeTimeout = 3 * time.Second
)

// autoCarrier returns the carrier that auto stands for. refusal is the error that ruled out ssh. It
// is nil if the launch itself decides.
func (c *Config) autoCarrier(ctx context.Context, p launch.Prediction) (name string, refusal error) {
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
	by, err := ssh.New(ssh.Options{Port: p.SSHPort, Timeout: sshProbeTimeout})
	if err != nil { // the ssh carrier will report the error
		return sshName, nil
	}
	defer by.Close()
	for _, host := range p.Hosts[:min(len(p.Hosts), sshProbes)] {
		if err := refuses(ctx, by, host.Name); err != nil {
			return srun.Name, err
		}
	}
	return sshName, nil
}

// refusals lists causes with which a node refuses ssh for this account, or for everybody. The run
// reports other problems with keys, and nodes that do not answer.
var refusals = []remote.Cause{remote.Refused, remote.NoJob, remote.AccountClosed, remote.KeysRefused, remote.PasswordOnly}

// refuses returns the error if a node refuses a login over ssh. It returns nil if the node does not
// refuse.
func refuses(ctx context.Context, by remote.Carrier, name string) error {
	ctx, cancel := context.WithTimeout(ctx, sshProbeTimeout)
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

// carrier is a value of --via and the function that opens it.
type carrier struct {
	name string
	open func(*Config, preflight.Plan) (remote.Carrier, error)
}

// carriers lists the ways to reach the nodes.
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

// carrier returns the carrier of --via, whose value has been checked before.
func (c *Config) carrier(ctx context.Context, plan preflight.Plan) (remote.Carrier, error) {
	name := c.Via
	if name == viaAuto || name == "" {
		var refusal error
		if name, refusal = c.autoCarrier(ctx, plan.Prediction); refusal != nil && !c.Quiet {
			fmt.Fprintf(os.Stderr, "preflight: using srun, as the launch does, because ssh failed: %v (to use ssh anyway: --via ssh)\n", refusal)
		}
	}
	i := slices.IndexFunc(carriers, func(by carrier) bool { return by.name == name })
	return carriers[i].open(c, plan)
}

var viaUsage = "how to reach the nodes: " + strings.Join(viaNames(), ", ")

// enterable checks the value of --in.
func enterable(text string) error {
	_, err := inside.Words(text)
	return err
}

// inside returns a function that returns the command which enters the container on a node. --in
// overrides the configuration file. If several entries of the file name the node, the last one
// applies.
func (c Config) inside() func(node string) []string {
	if words, _ := inside.Words(c.In); words != nil || c.places["in"] != "" { // the value of --in was checked before
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
