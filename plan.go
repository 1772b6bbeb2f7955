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
	// Command is the launch command, `deepspeed … train.py …`. If it is empty, Options describe the
	// whole launch.
	Command []string
	// Options are what flags say about the launch. With a Command they add what no command can
	// express: the accelerator, the working directory, and the hosts of a torchrun that is started
	// on every node separately.
	Options launch.Options
	// Hostfile is the file to read, "" if Options.Hosts has the nodes.
	Hostfile string
}

// Plan is a launch before any node is reached.
type Plan struct {
	Head       *facts.Node // the launching machine
	Prediction launch.Prediction
	Hostfile   string // the file that was read, "" for none
	// Alone is set if DeepSpeed found no hostfile and will start everything on the launching
	// machine.
	Alone bool
}

// NewPlan predicts a launch without connecting to any node. It reads from the launching machine
// which DeepSpeed is installed and how it will be started, then reads the command and the hostfile
// as that release does. It returns an error for files that cannot be read, and for whatever
// DeepSpeed itself would refuse.
func NewPlan(ctx context.Context, intent Intent) (Plan, error) {
	var err error
	plan, stood := hostsys.Anew(ctx, func(ctx context.Context) (plan Plan) {
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
	if look.ByMPIRun = plan.Prediction.StartedBy().MPIRun != ""; look.ByMPIRun { // mpirun tells its daemons on the nodes where to call back
		fleet.ProbeHere(ctx, plan.Head, look, []facts.Section{facts.SectionLauncher, facts.SectionNet})
	}
	return plan, err
}

// parse reads the command and determines its hosts. These are the hosts of the hostfile that it
// reads, the hosts from flags for a program that names none, or this machine alone.
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
	options := beside(typed.Options, flags)
	isPath, isPython := strings.Contains(command[0], "/"), strings.HasPrefix(path.Base(command[0]), "python") // Python is probed separately
	if isPath && !isPython && typed.Rendezvous != "" && typed.Rendezvous != launch.RendezvousDeepSpeed {
		options.TypedAs = command[0]
	}
	if typed.Hostfile != "" {
		typed.Hostfile = fromHere(flags.WorkDir, typed.Hostfile)
		if p.Hostfile != "" || flags.Unlisted {
			return flags, &launch.UsageError{Program: typed.Program,
				Message: fmt.Sprintf(`-H or -w stands before "--", but the command reads a hostfile itself, %s: name the hosts there, or with its own --hostfile`, typed.Hostfile)}
		}
		p.Hostfile, options.Hosts, options.Unlisted = typed.Hostfile, nil, false
		p.Alone = !typed.HostfileGiven && absent(typed.Hostfile)
	} else if p.Hostfile == "" && len(options.Hosts) == 0 {
		p.Alone = typed.MaxNodes == 1
		if !p.Alone {
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

// fromHere returns a path of the command relative to this process, which may run in another
// directory.
func fromHere(workDir, name string) string {
	if here, err := os.Getwd(); err != nil || here == workDir || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(workDir, name)
}

// absent reports whether the default hostfile does not exist. A hostfile that the command names
// must exist; a missing one is most likely a typo.
func absent(hostfile string) bool {
	_, err := os.Stat(hostfile)
	return errors.Is(err, fs.ErrNotExist)
}

// configOf returns the DeepSpeed configuration that the command names, nil for none.
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

// beside adds the options from flags that a command cannot express to those of the command.
func beside(command, flags launch.Options) launch.Options {
	command.Hosts, command.Unlisted = flags.Hosts, flags.Unlisted
	command.Accelerator = cmp.Or(flags.Accelerator, command.Accelerator)
	command.WorkDir, command.Set, command.DeepSpeed = flags.WorkDir, flags.Set, flags.DeepSpeed
	command.Interpreter = cmp.Or(command.Interpreter, flags.Interpreter)
	return command
}

// installed returns the DeepSpeed version of the launch's interpreter on the launching machine, ""
// if unknown.
func installed(head *facts.Node) string {
	if head.Python == nil {
		return ""
	}
	return head.Python.Packages["deepspeed"]
}
