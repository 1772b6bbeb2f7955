// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"preflight"
	"preflight/cmd/preflight/internal/agents"
	"preflight/cmd/preflight/internal/inside"
	"preflight/cmd/preflight/internal/usage"
	"preflight/hostfile"
	"preflight/launch"
	"preflight/launch/args"
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

// followSrun makes preflight reach the nodes as the srun of the command does: in the job that
// preflight runs in, and in srun's container. --via and the flags of the container count more.
func (c *Config) followSrun(command []string) {
	options := args.SrunOptions(command)
	if options == nil || c.Via != viaAuto && c.Via != srun.Name {
		return
	}
	if srun.Own().ID != "" {
		c.Via = srun.Name
	}
	for _, option := range []struct {
		name string
		into *string
	}{{"image", &c.Image}, {"name", &c.Kept}, {"mounts", &c.Mounts}, {"workdir", &c.Workdir}} {
		*option.into = cmp.Or(*option.into, options["--container-"+option.name])
	}
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

func podFlags(flags *pflag.FlagSet) {
	flags.String("namespace", "", "with --via kubectl: the pods' namespace (default: kubectl's current namespace)")
	flags.String("context", "", "with --via kubectl: kubectl context (default: the current context)")
	flags.String("selector", "", "with --via kubectl: label selector for the pods to check, such as app=train")
	flags.String("job", "", "with --via kubectl: the pods' owner; KIND is job, pytorchjob, mpijob, jobset, leaderworkerset, podgroup or vcjob")
	flags.String("container", "", "with --via kubectl: the ranks' container (default: the container that kubectl exec enters)")
}

// askForPods asks the cluster for the pods. The pods are also the hosts of the launch, unless an
// option or a hostfile names hosts.
func (c *Config) askForPods(ctx context.Context) error {
	if c.Via != kubectl.Name {
		var given []string
		for _, flag := range [][2]string{{"namespace", c.Namespace}, {"context", c.Context}, {"selector", c.Selector}, {"job", c.Job}, {"container", c.Container}} {
			if flag[1] != "" {
				given = append(given, c.origin(flag[0]))
			}
		}
		if given != nil {
			return usage.WithHint(fmt.Errorf("needs --via kubectl: %s", strings.Join(given, ", ")), "add --via kubectl, or leave this out")
		}
		return nil
	}
	var err error
	if c.pods, err = kubectl.New(ctx, kubectl.Options{Namespace: c.Namespace, Context: c.Context, Selector: c.Selector, Job: c.Job, Container: c.Container, Timeout: c.Timeout}); err != nil {
		return usage.WithHint(fmt.Errorf("--via kubectl: %w", err), "install kubectl, and see preflight help via")
	}
	return nil
}

// podHosts returns the pods as hosts.
func (c Config) podHosts() ([]hostfile.Host, error) {
	if c.Selector == "" && c.Job == "" {
		return nil, usage.WithHint(errors.New("--via kubectl: no pods selected"), "select them with --selector app=train or --job pytorchjob/NAME, or name them in a hostfile or with -w")
	}
	hosts, err := c.pods.Hosts()
	if failure, is := errors.AsType[*remote.Error](err); is {
		why := fmt.Errorf("--via kubectl: %w", failure.Err)
		switch failure.Cause {
		case remote.Interrupted:
			return nil, why
		case remote.NotLoggedIn:
			return nil, usage.WithHint(why, "log in to the cluster; this must succeed: kubectl auth can-i get pods")
		case remote.Forbidden:
			return nil, usage.WithHint(why, "ask an administrator for get and list on pods and create on pods/exec in namespace %s; or name the pods with -w, which needs no list", cmp.Or(c.Namespace, "default"))
		case remote.NoPod:
			return nil, usage.WithHint(why, "to list all pods: kubectl get pods --all-namespaces --show-labels")
		}
		return nil, usage.WithHint(why, "to test the cluster: kubectl cluster-info; to list the known ones: kubectl config get-contexts")
	}
	return hosts, err
}
