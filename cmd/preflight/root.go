// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"preflight"
	"preflight/checks"
	"preflight/cmd/preflight/internal/agents"
	"preflight/cmd/preflight/internal/outputs"
	"preflight/cmd/preflight/internal/progress"
	"preflight/cmd/preflight/internal/usage"
	"preflight/hostfile"
	"preflight/launch"
	"preflight/launch/args"
	"preflight/remote"
	"preflight/remote/kubectl"
	"preflight/remote/srun"
	"preflight/report/formats"
)

// throughputTime is how long each node sends to its neighbour for --throughput. TCP needs that long
// to reach its full rate.
const throughputTime = 3 * time.Second

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "preflight [-H hostfile | -- deepspeed … train.py …]",
		Short: "Check a multi-node training launch before you start it",
		Long: `preflight checks the nodes of a multi-node launch and reports which node is broken,
why, and how to fix it. Without arguments, it checks the Slurm job's nodes, or the nodes
in ./hostfile or /job/hostfile. With a command after "--", it checks exactly that command,
and starts the command if all is well.

Exit codes: 0 ready (warnings are allowed unless --strict is set), 1 a check failed,
2 preflight could not tell or could not run.`,
		Example: `  preflight -H hostfile
  preflight -H hostfile --include 'w1:0,1@w2:0,1' --accelerator cpu
  preflight -w 'node[01-16]' --only ssh-reach,ssh-login
  preflight -H hostfile -o junit=report.xml,json=run.json
  preflight -H hostfile --good-hosts good --bad-hosts bad`,
		Version:           Version,
		Args:              commandOnly,
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: knownFormat,
		RunE:              launching(judgeFleet),
	}
	root.SetGlobalNormalizationFunc(bothSpellings)
	root.PersistentFlags().String("config", "", "configuration file (default: preflight.yaml in the hostfile's directory, else in your configuration directory)")
	launchFlags(root.Flags())
	drillFlags(root.Flags())
	judgeFlags(root, formats.Names())
	hostListFlags(root.Flags())
	progressFlag(root.Flags())
	baselineFlag(root.Flags())
	root.Flags().Bool("dry-run", false, "check the command after \"--\", but do not start it")
	root.Flags().String("write-env", "", "write the variables that worked in this run, in .deepspeed_env format")
	root.AddCommand(snapshotCommand(), judgeCommand(), diffCommand(), checksCommand(), predictCommand(), rendezvousCommand(), hangCommand(), explainCommand(), causesCommand(), cleanCommand(), demoCommand(), manCommand(), initCommand(), factsCommand(), versionCommand(), agentCommand())
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if err = flagError(c, err); errors.As(err, new(*usage.Error)) {
			return err
		}
		lists := c.CommandPath() + " --help"
		if c == root {
			lists = "preflight help flags"
		}
		return usage.WithHint(err, "%s lists the flags", usage.Words(lists))
	})
	setHelp(root)
	if err := root.MarkPersistentFlagFilename("config", "yaml", "yml"); err != nil {
		panic("preflight: " + err.Error()) // cannot happen, because the flag exists
	}
	for _, cmd := range append(root.Commands(), root) {
		completeFlags(cmd)
	}
	return root
}

// noArguments refuses arguments and suggests what the user meant: a misspelt command, the file to
// write, or otherwise a hostfile.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	unexpected := fmt.Errorf("unexpected argument %q", args[0])
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	switch near := usage.Meant(args[0], names); {
	case near != "":
		return usage.WithHint(fmt.Errorf("unknown command %q%s", args[0], near), "%s -h lists the commands; to check a hostfile: %s -H %s", usage.Words(cmd.CommandPath()), usage.Words(cmd.CommandPath()), args[0])
	case cmd.Flags().Lookup("output") != nil && (formats.ByEnding(args[0]) != "" || slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(args[0]))):
		typed := usage.Words(cmd.CommandPath() + " -H hostfile")
		if cmd.Flags().Lookup("normalize") != nil { // a baseline needs values that do not change
			typed += " --normalize"
		}
		return usage.WithHint(unexpected, "to write a file: %s -o %s", typed, args[0])
	}
	return usage.WithHint(unexpected, "to name a hostfile: %s -H %s", usage.Words(cmd.CommandPath()), args[0])
}

// arguments refuses too few or too many arguments. rule says what the command needs.
func arguments(least, most int, rule string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if least <= len(args) && len(args) <= most {
			return nil
		}
		return fmt.Errorf("%s %s: %s %s", cmd.Name(), rule, cmd.Parent().CommandPath(), cmd.Use)
	}
}

func judgeFleet(cmd *cobra.Command, config Config, command []string) error {
	policy, err := config.policy()
	if err != nil {
		return err
	}
	began := time.Now()
	job, closeJob, err := config.job(cmd.Context(), command)
	if noHostsGiven(err) && config.Via == srun.Name {
		return usage.WithHint(errors.New("no nodes: preflight is in no Slurm job"), "run it in the job, by sbatch or salloc; or name a running job of yours: preflight --jobid 118 --via srun")
	}
	if noHostsGiven(err) {
		return firstSteps()
	}
	if err != nil {
		return err
	}
	defer closeJob()
	if err := errors.Join(config.writable(outputs.Run(), map[string]string{"the hostfile": job.Plan.Hostfile, "the baseline": config.Baseline}), config.envWritable()); err != nil {
		return err
	}
	if policy.Baseline, err = config.baseline(job.Plan.Prediction); err != nil {
		return err
	}
	job.Policy = policy
	report := config.stamped(preflight.Run(cmd.Context(), job), job.Plan, began)
	config.conclude(report)
	closeJob()
	isQuiet := config.Quiet
	if len(command) > 0 && !config.DryRun && report.ExitCode == exitPass && !config.Verbose {
		config.Quiet = true // print only problems, because the output of the launch follows
	}
	next, rehearsal := "", ""
	if job.Plan.StandIn.Words != nil {
		rehearsal = rehearsalOf(cmd, report)
	}
	switch {
	case len(command) == 0:
		next = nextCommand(cmd, report)
	case report.ExitCode == exitTrouble:
		next = answering(cmd, report)
	default:
		next = rehearsal
	}
	report.Next, _, _ = strings.Cut(next, "   # ")
	if err := errors.Join(config.write(report), config.writeEnv(report.Advice)); err != nil {
		return err
	}
	switch {
	case len(command) == 0 || config.DryRun:
		config.offer(next)
		return verdictCode(report)
	case report.ExitCode != exitPass:
		if report.ExitCode == exitTrouble {
			config.offer(next)
		}
		notLaunched(report, rehearsal != "" && !isQuiet)
		return verdictCode(report)
	case wrongPlace(report) != "":
		notLaunched(report, false)
		return exitCode(exitTrouble)
	}
	if cmd.Context().Err() != nil { // the user typed Ctrl-C while the report was written
		return exitCode(exitTrouble)
	}
	if !isQuiet && rehearsal != "" {
		fmt.Fprintln(os.Stderr, "preflight: ready as far as the checks can tell; --rehearse also tries the launch before it starts")
	}
	return startLaunch(config.typed.words)
}

// stamped adds to a report the source of its hosts, the time, and the version of preflight.
func (c Config) stamped(r checks.Report, plan preflight.Plan, began time.Time) checks.Report {
	r.Version, r.Hostfile = Version, c.source(plan)
	r.Began, r.Seconds = began.UTC().Format(time.RFC3339), time.Since(began).Seconds()
	static := agents.Static()
	if plan.Alone || c.meeting != nil { // this program is also the agent
		static = agents.OwnStatic()
	}
	if static {
		r.CannotSee = "this preflight was built without cgo and cannot see NVIDIA GPUs: see docs/build.md"
	}
	return r
}

func verdictCode(r checks.Report) error {
	if r.ExitCode == exitPass {
		return nil
	}
	return exitCode(r.ExitCode)
}

// job turns the configuration into the job of a run, and shows the progress of the run. The
// returned function ends the progress and closes the connections that outlive a node, such as those
// to jump hosts.
func (c *Config) job(ctx context.Context, command []string) (preflight.Job, func(), error) {
	if err := c.askForPods(ctx); err != nil {
		return preflight.Job{}, nil, err
	}
	c.followSrun(command)
	if err := c.askForJob(ctx, command); err != nil {
		return preflight.Job{}, nil, err
	}
	intent, err := c.intent(command)
	if err != nil {
		return preflight.Job{}, nil, err
	}
	plan, err := preflight.NewPlan(ctx, intent)
	if err != nil {
		return preflight.Job{}, nil, err
	}
	if c.Hosts != "" && (c.Via == viaAuto || c.Via == sshName) {
		plan.Prediction.Meant = typos(ctx, intent.Options.Hosts)
	}
	if c.unread != nil { // DeepSpeed can read the launch, so there may be a policy file for which preflight did not look
		return preflight.Job{}, nil, usage.WithHint(fmt.Errorf("cannot tell which policy applies: %w", c.unread), "write the option out in full, or name the policy: --config %s", besideHostfile(plan.Hostfile))
	}
	carrier, err := c.carrier(ctx, plan)
	if err != nil {
		return preflight.Job{}, nil, err
	}
	client := remote.New(carrier, remote.Options{Timeout: c.Timeout, Nodes: len(plan.Prediction.Hosts), In: c.inside(), Binary: agents.Open})
	shown := progress.Start(c.Progress, c.Quiet)
	job := preflight.Job{Plan: plan, Remote: client, Timeout: c.Timeout, Progress: shown.Take}
	if c.Throughput {
		job.Throughput = throughputTime
	}
	if c.Smoke != smokeNone {
		job.Smoke.Time = c.SmokeTime
		if c.Smoke != smokeAuto {
			job.Smoke.Engine = c.Smoke
		}
	}
	if c.Rehearse > 0 || c.Smoke != smokeNone && c.places["rehearse"] == "" {
		job.Rehearse, job.RehearseBusy = c.RehearseFor, c.Rehearse > 1
	}
	return job, sync.OnceFunc(func() { shown.Stop(); client.Close() }), nil
}

// accelerator returns --accelerator, or DS_ACCELERATOR if --accelerator is auto. "" leaves the
// choice open.
func (c Config) accelerator() string {
	if c.Accelerator != "auto" {
		return c.Accelerator
	}
	if named := os.Getenv("DS_ACCELERATOR"); slices.Contains(accelerators, named) {
		return named
	}
	return ""
}

// slurmVariable returns a function that reads Slurm's variables. Behind srun, a task is a torchrun,
// so the number of tasks on a node says nothing about ranks.
func slurmVariable(command []string) func(name string) string {
	return func(name string) string {
		if name == "SLURM_TASKS_PER_NODE" && args.SrunOptions(command) != nil {
			return ""
		}
		return os.Getenv(name)
	}
}

// intent returns the launch that the command or the flags describe. The hosts are those of -w, or
// else of the hostfile, or else of the Slurm job, or else of the nearest hostfile. A deepspeed
// command names its hosts itself, and a torchrun command on a single node needs none.
func (c Config) intent(command []string) (preflight.Intent, error) {
	workDir, err := workingDirectory()
	if err != nil {
		return preflight.Intent{}, err
	}
	intent := preflight.Intent{Command: command, Options: launch.Options{
		Filter: hostfile.Filter{
			Include: c.Include, Exclude: c.Exclude, NumNodes: hostfile.AtMost(c.NumNodes), NumGPUs: hostfile.AtMost(c.NumGPUs), ForceMulti: c.ForceMulti,
		},
		DeepSpeed: c.DeepSpeed,
		Launcher:  c.Launcher, MasterAddr: c.MasterAddr, MasterPort: c.MasterPort, SSHPort: c.SSHPort,
		Accelerator: c.accelerator(), WorkDir: cmp.Or(c.typed.dir, workDir), Set: c.typed.set, Interpreter: c.Python,
		Rendezvous: c.Rendezvous, RdzvEndpoint: c.Endpoint, SlurmJob: c.slurm.Named,
	}}
	if len(command) > 0 && c.origin("python") == c.Stated.Settings["python"].At+": python" {
		intent.Options.Interpreter, intent.UsualPython = "", c.Python // the program that the user typed has its own interpreter
	}
	switch {
	case c.Endpoint != "" && c.Rendezvous == launch.RendezvousDeepSpeed:
		err = usage.WithHint(fmt.Errorf("%s needs --rendezvous c10d or static", c.origin("rdzv_endpoint")), "add one of them, or use --master_addr and --master_port instead")
	case c.Hosts != "" && c.Hostfile != "":
		err = errors.New("-H conflicts with -w: give one of them")
	case c.Hosts != "":
		intent.Options.Unlisted = true
		intent.Options.Filter.ForceMulti = true // -w names a single node, and the launch must not run on this machine instead
		intent.Options.Hosts, err = hostfile.ParseHosts(c.Hosts)
	case c.Hostfile == "" && c.pods != nil:
		intent.Options.Unlisted = true
		intent.Options.Filter.ForceMulti = true
		intent.Options.Hosts, err = c.podHosts()
	case c.Hostfile == "" && c.slurm.Named:
		intent.Options.Unlisted = true
		intent.Options.Filter.ForceMulti = true
		intent.Options.Hosts, err = hostfile.FromSlurm(c.slurm.Nodes, "") // the number of ranks per node is unknown
	case c.Hostfile == "" && c.slurm.Nodes != "":
		intent.Options.Hosts, err = hostfile.FromSlurm(c.slurm.Nodes, hostfile.SlurmSlots(slurmVariable(command), intent.Options.Accelerator == "cpu"))
	case c.Hostfile != "" || len(command) == 0:
		intent.Hostfile = cmp.Or(c.Hostfile, nearestHostfile())
	}
	return intent, err
}

// workingDirectory returns the directory in which the launch would start. The directory may have
// been removed, or this account may not enter it after su or sudo -u. The error explains that,
// because the user named no directory.
func workingDirectory() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", usage.WithHint(fmt.Errorf("the working directory, where the launch would run, cannot be entered: %w", err),
			"change to another directory, such as cd ~, and try again")
	}
	return dir, nil
}

func (c Config) source(plan preflight.Plan) string {
	switch {
	case plan.Hostfile != "":
		return plan.Hostfile
	case c.Hosts != "":
		return "-w " + c.Hosts
	case c.Via == kubectl.Name:
		return "the pods of " + cmp.Or(c.Job, c.Selector)
	case plan.Alone:
		return ""
	case c.slurm.Named:
		return "the nodes of Slurm job " + c.JobID
	}
	return "SLURM_JOB_NODELIST"
}
