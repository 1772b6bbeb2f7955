// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"preflight/facts"
	"preflight/fleet"
	"preflight/hostfile"
	"preflight/internal/hostsys"
	"preflight/launch"
	"preflight/launch/args"
	"preflight/launch/dsconfig"
	"preflight/probe"
)

// headTime limits each collection of facts on the launching machine before the plan is complete.
const headTime = 10 * time.Second

// Intent is a launch as the user describes it.
type Intent struct {
	// Command is the launch command, such as `deepspeed … train.py …`. If it is empty, Options
	// describes the whole launch.
	Command []string
	// Options holds what the user's flags say about the launch. With a Command, Options adds what
	// no command can express: the accelerator, the working directory, and the hosts of a torchrun
	// that is started on every node separately.
	Options launch.Options
	// Hostfile is the path of the hostfile to read. It is "" if Options.Hosts lists the nodes.
	Hostfile string
	// UsualPython is the interpreter of a team's launches, for a command that does not determine
	// its interpreter. It is "" if there is none.
	UsualPython string
}

// Plan is a launch before preflight has connected to any node.
type Plan struct {
	Head       *facts.Node // the launching machine
	Prediction launch.Prediction
	StandIn    launch.StandIn // the command for a rehearsal; empty without a command
	Hostfile   string         // the file that was read, "" for none
	// Alone reports whether DeepSpeed found no hostfile and will therefore start every rank on the
	// launching machine.
	Alone bool
}

// NewPlan predicts a launch without connecting to any node. It finds out which DeepSpeed release is
// installed on the launching machine and how that release will be started. It then reads the
// command and the hostfile as that release does. NewPlan returns an error for files that it cannot
// read, and for every input that DeepSpeed itself would refuse.
func NewPlan(ctx context.Context, intent Intent) (Plan, error) {
	var err error
	plan, stood := hostsys.RepeatAfterStandstill(ctx, func(ctx context.Context) (plan Plan) {
		plan, err = newPlan(ctx, intent)
		return plan
	})
	if len(stood) > 1 {
		return plan, fmt.Errorf("%w, twice: the launching machine was stopped or asleep while preflight read it", stood[1])
	}
	return plan, err
}

func newPlan(ctx context.Context, intent Intent) (Plan, error) {
	options := intent.Options
	plan := Plan{Head: &facts.Node{Name: "launching machine", Reached: true, Missing: map[facts.Section]string{}}, Hostfile: intent.Hostfile}
	look := probe.Options{WorkDir: options.WorkDir, Deadline: headTime, Launchers: launch.LauncherPrograms()}
	if len(intent.Command) > 0 {
		look.Program = intent.Command[0]
	}
	fleet.ProbeHere(ctx, plan.Head, look, probe.Of(probe.Head))
	if options.Interpreter == "" && (plan.Head.Launcher == nil || plan.Head.Launcher.Interpreter == "") {
		options.Interpreter = intent.UsualPython
	}
	look.Interpreter, _ = launch.Interpreter(options.Interpreter, plan.Head.Launcher)
	if look.Interpreter != "" {
		fleet.ProbeHere(ctx, plan.Head, look, []facts.Section{facts.SectionPython})
	}
	if options.DeepSpeed == "" {
		options.DeepSpeed = installed(plan.Head)
	}
	if len(intent.Command) > 0 {
		var err error
		if options, err = plan.parse(intent.Command, options); err != nil {
			return plan, err
		}
	}
	if options.HostsFile = plan.Hostfile; plan.Hostfile != "" {
		hosts, notes, err := hostfile.ReadFile(plan.Hostfile, options.DeepSpeed)
		if err != nil {
			return plan, err
		}
		options.Hosts, options.Notes = hosts, append(options.Notes, notes...)
	}
	look.Files, look.Head, look.Interpreter = launch.FilesNamed(options), true, cmp.Or(options.Interpreter, look.Interpreter)
	fleet.ProbeHere(ctx, plan.Head, look, []facts.Section{facts.SectionFiles})
	options.Config = configOf(plan.Head)
	var err error
	plan.Prediction, err = launch.Predict(options, plan.Head)
	if look.ByMPIRun = plan.Prediction.StartedBy().MPIRun != ""; look.ByMPIRun { // mpirun tells its daemons on the nodes the address to call back
		fleet.ProbeHere(ctx, plan.Head, look, []facts.Section{facts.SectionLauncher, facts.SectionNet})
	}
	return plan, err
}

// parse reads the command and determines its hosts. The hosts come from the hostfile that the
// command reads, or from flags for a program that names no hosts. Otherwise this machine is the
// only host.
func (p *Plan) parse(command []string, flags launch.Options) (launch.Options, error) {
	around := args.Surroundings{Getenv: os.Getenv, ReadFile: func(name string) ([]byte, error) { return os.ReadFile(fromHere(flags.WorkDir, name)) }}
	if p.Head.Python != nil {
		around.Python = p.Head.Python.Version
	}
	typed, err := args.Parse(command, flags.DeepSpeed, around)
	if err == nil {
		err = typed.Refused()
	}
	if err != nil {
		return flags, err
	}
	p.StandIn = args.StandIn(command, flags.DeepSpeed, around)
	options := beside(typed.Options, flags)
	isPath, isPython := strings.Contains(command[0], "/"), strings.HasPrefix(path.Base(command[0]), "python") // Python is probed in its own section
	if isPath && !isPython && typed.Srun == nil && typed.Rendezvous != "" && typed.Rendezvous != launch.RendezvousDeepSpeed {
		options.TypedAs = command[0]
	}
	if typed.Hostfile != "" {
		typed.Hostfile = fromHere(flags.WorkDir, typed.Hostfile)
		if p.Hostfile != "" || flags.Unlisted {
			return flags, &launch.UsageError{Program: typed.Program,
				Message: fmt.Sprintf(`-H or -w does not apply here, because the command reads its own hostfile, %s: name the hosts there, or add --hostfile FILE to the command`, typed.Hostfile)}
		}
		p.Hostfile, options.Hosts, options.Unlisted = typed.Hostfile, nil, false
		p.Alone = !typed.HostfileGiven && absent(typed.Hostfile)
	} else if p.Hostfile == "" && len(options.Hosts) == 0 {
		p.Alone = typed.MaxNodes == 1
		if !p.Alone {
			if typed.Srun != nil {
				return options, &launch.UsageError{Program: "srun", Message: "preflight is in no Slurm job: run it in the job, by sbatch or salloc"}
			}
			return options, &launch.UsageError{Program: typed.Program,
				Message: "its command line does not name the nodes: name them before \"--\" with -H hostfile or -w 'node[01-16]'"}
		}
	}
	if p.Alone {
		p.Hostfile = ""
		return options.WithoutHostfile(p.Head)
	}
	return options, nil
}

// fromHere converts a path that is relative to the command's working directory. The result is
// relative to this process, which may run in another directory.
func fromHere(workDir, name string) string {
	if here, err := os.Getwd(); err != nil || here == workDir || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(workDir, name)
}

// absent reports whether the default hostfile does not exist. A hostfile that the command names
// must exist, because a missing one is most likely a typo.
func absent(hostfile string) bool {
	_, err := os.Stat(hostfile)
	return errors.Is(err, fs.ErrNotExist)
}

// configOf returns the DeepSpeed configuration that the command names, or nil if it names none.
func configOf(head *facts.Node) *dsconfig.File {
	if head.Files == nil {
		return nil
	}
	for _, file := range head.Files.Files {
		if file.Role != facts.RoleConfig || file.Text == "" && file.Hjson == nil {
			continue
		}
		config := &dsconfig.File{Path: file.Path, JSON: file.Text, Hjson: file.Hjson != nil}
		if config.Hjson {
			config.Refused = file.Hjson.Refused
		}
		return config
	}
	return nil
}

// beside returns the command's options with those options from flags that no command can express.
func beside(command, flags launch.Options) launch.Options {
	command.Hosts, command.Unlisted = flags.Hosts, flags.Unlisted
	command.Accelerator = cmp.Or(flags.Accelerator, command.Accelerator)
	command.WorkDir, command.Set, command.DeepSpeed = flags.WorkDir, flags.Set, flags.DeepSpeed
	command.Interpreter = cmp.Or(command.Interpreter, flags.Interpreter)
	return command
}

// installed returns the DeepSpeed version that the launch's Python interpreter has on the launching
// machine, or "" if the version is unknown.
func installed(head *facts.Node) string {
	if head.Python == nil {
		return ""
	}
	return head.Python.Packages["deepspeed"]
}
