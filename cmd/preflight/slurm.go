// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/spf13/pflag"

	"preflight/cmd/preflight/internal/usage"
	"preflight/remote/kubectl"
	"preflight/remote/srun"
)

func slurmFlags(flags *pflag.FlagSet) {
	flags.String("jobid", "", "check the nodes of this Slurm job, which must be a running job of yours (default: the job you are in)")
	flags.String("callback", "", "with --via srun: address that the agents connect to (default: any local address, with a port from Slurm's SrunPortRange)")
	flags.String("container-image", "", "with --via srun: image to pass to srun (pyxis); its first import counts towards --timeout")
	flags.String("container-name", "", "with --via srun: container name to pass to srun (pyxis)")
	flags.String("container-mounts", "", "with --via srun: mounts to pass to srun (pyxis)")
	flags.String("container-workdir", "", "with --via srun: working directory to pass to srun (pyxis)")
}

// slurmJob checks the value of --jobid.
func slurmJob(text string) error {
	if !srun.IsJob(text) {
		return errors.New("must be the number of a job, as squeue shows it: 118, or 118_3 for a task of an array")
	}
	return nil
}

// callback checks the value of --callback.
func callback(text string) error {
	host, number, err := net.SplitHostPort(text)
	if err != nil || host == "" {
		return errors.New("must be HOST:PORT, such as 10.0.0.1:29400")
	}
	return port(number)
}

// askForJob asks Slurm for the job of --jobid.
func (c *Config) askForJob(ctx context.Context, command []string) error {
	if words := c.pyxis(); words != nil && c.Via != srun.Name {
		return usage.WithHint(fmt.Errorf("needs --via srun: %s", strings.Join(words, ", ")), "add --via srun, or use --in for other containers")
	}
	switch {
	case c.JobID == "":
		c.slurm = srun.Own()
		return nil
	case c.Via == kubectl.Name:
		return usage.WithHint(fmt.Errorf("%s conflicts with --via kubectl", c.origin("jobid")), "leave one of the two out")
	case len(command) > 0 && !c.DryRun:
		return usage.WithHint(fmt.Errorf("%s conflicts with a launch command, which does not start in that job", c.origin("jobid")), "add --dry-run to check only, or run preflight inside the job")
	}
	var err error
	if c.slurm, err = srun.Find(ctx, c.JobID, c.Timeout); err != nil {
		return usage.WithHint(err, "to list your running jobs: squeue --me --states=RUNNING; to start one: salloc --nodes N preflight --via srun")
	}
	return nil
}

// pyxis returns the options for srun that select the container of a step, one word each.
func (c Config) pyxis() (words []string) {
	for _, option := range [][2]string{{"image", c.Image}, {"name", c.Kept}, {"mounts", c.Mounts}, {"workdir", c.Workdir}} {
		if option[1] != "" {
			words = append(words, "--container-"+option[0]+"="+option[1])
		}
	}
	return words
}
