// SPDX-License-Identifier: Apache-2.0

// Package launch predicts what DeepSpeed's launcher, torchrun, accelerate, torch and NCCL will do
// with given hosts, a command line and an environment. It predicts which configurations they refuse
// and accept, and who starts which process with which interpreter. It predicts which variables a
// rank sees, on which addresses the ranks listen, where the rendezvous is, and how much shared
// memory NCCL uses.
//
// Every rule names the source and version that it was read from. The package uses only its
// arguments: no file, no network, no clock ([Surroundings] reads accelerate's configuration). The
// package does not rate its predictions; the checks do that.
package launch

import (
	"cmp"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/secret"
	"preflight/launch/dsconfig"
)

// DefaultMasterPort is the port of torch's rendezvous if --master_port is not given
// (deepspeed/constants.py, TORCH_DISTRIBUTED_DEFAULT_PORT).
const DefaultMasterPort = 29500

// Programs lists the programs that start a launch. They are the values of Options.Program.
var Programs = []string{ProgramDeepSpeed, ProgramTorchrun, ProgramAccelerate}

const (
	ProgramDeepSpeed  = "deepspeed"
	ProgramTorchrun   = "torchrun"
	ProgramAccelerate = "accelerate" // accelerate launch --use_deepspeed, which starts deepspeed
)

// Options holds what the command line says about the launch.
type Options struct {
	Program string // "" means deepspeed
	// Framework is the program that was typed and that starts Program, such as swift; "" for none.
	Framework string
	// Srun holds srun and its options, except those that redirect its output, if the command is typed once, behind srun, which starts it on
	// every node.
	Srun []string
	// TypedAs is the path of the program if the command is typed on every node and names the
	// program by a path.
	TypedAs string
	// HostsFile is the path of the hostfile as the command line gives it, "" for none. Open MPI
	// gets this path.
	HostsFile string
	Hosts     []hostfile.Host // hosts of the hostfile, before the filter
	Notes     []hostfile.Note // notes from reading the hostfile
	// Unlisted means that the hosts come from -w or an allocation and not from a hostfile, so
	// DeepSpeed's rules for host names do not apply.
	Unlisted     bool
	Filter       hostfile.Filter
	NoSSH        bool // --no_ssh: every node is started by hand
	NoSSHCheck   bool
	NodeRank     int    // --node_rank
	Launcher     string // a name of [Launchers] in any case; "" is the default
	LauncherArgs string
	MasterAddr   string
	MasterPort   int // 0 means the default
	SSHPort      int // 0 leaves the choice to ssh
	// Accelerator is cuda or cpu, "" if nothing names it. In that case the launching machine's
	// accelerator decides which variables are exported, and the nodes are checked for cuda.
	Accelerator string
	WorkDir     string // absolute
	// Set lists the variables that are set for the command on the machine where it is typed: before
	// the command, or by the script that runs it.
	Set         []string
	Interpreter string // --python
	DeepSpeed   string // version, "" for the newest
	// Rendezvous is deepspeed, static, c10d or another backend of torchrun; "" means deepspeed.
	// RdzvEndpoint is torchrun's host[:port], for every backend but deepspeed.
	Rendezvous   string
	RdzvEndpoint string
	RdzvID       string // torchrun's --rdzv-id, "" without one
	// SlurmJob means that the command will be typed inside a Slurm job, although preflight checks
	// it outside the job.
	SlurmJob bool
	// MinNodes and MaxNodes are the bounds in torchrun's --nnodes, 0 if it is not given. PerNode is
	// torchrun's --nproc_per_node: a number, auto, gpu or cpu.
	MinNodes, MaxNodes int
	PerNode            string

	Script      string   // as typed; "" if only the hosts are checked
	Arguments   []string // arguments of the script
	Module      bool     // --module: Script is a module's name
	ByModule    bool     // typed as python -m instead of the program's name
	NoPython    bool     // --no_python: Script is a program
	NoLocalRank bool
	SavePID     bool
	EachRankLog string // --enable_each_rank_log; "" means DeepSpeed's "None"
	Autotuning  string
	VenvScript  string
	BindCores   bool
	CoreList    string // --bind_core_list
	LogLevel    string // "" means info
	Quiet       bool
	// Elastic is --elastic_training, which v0.19.8 removed. MinElastic and MaxElastic are -1 if
	// they are not given.
	Elastic                bool
	MinElastic, MaxElastic int
	// ConfigFile is a DeepSpeed configuration that no script argument names. accelerate or the
	// script's configuration file names it instead.
	ConfigFile string
	// Reads lists words in the script's configuration file that may be paths. Configured lists the
	// entries of that file as options: --output_dir=out.
	Reads      []string
	Configured []string
	// Config is the DeepSpeed configuration, nil if none was named or it could not be read.
	Config *dsconfig.File
}

// Prediction describes what the launch will do.
type Prediction struct {
	Program   string          `json:"program,omitempty"`   // deepspeed, torchrun, accelerate
	Framework string          `json:"framework,omitempty"` // the typed program that starts Program, such as swift
	Srun      bool            `json:"srun,omitempty"`      // srun starts Program on every node
	SrunWords []string        `json:"-"`                   // srun and its options, which may hold secrets
	DeepSpeed string          `json:"deepspeed,omitempty"` // the release whose rules apply, "" for the newest
	Hosts     []hostfile.Host `json:"hosts"`               // active hosts in rank order
	Launcher  string          `json:"launcher"`            // a name of [Launchers]; "" with NoSSH and for torchrun
	// Total is the number of ranks that DeepSpeed requests from srun, if that differs from the
	// filtered slots. Before v0.19.7 it is the total of the whole hostfile.
	Total int `json:"total,omitempty"`
	// Local means that DeepSpeed starts the ranks of the only host on the launching machine,
	// without ssh and with its own environment.
	Local bool `json:"local"`
	// MasterAddr is the address that the command gives. It is "" if DeepSpeed will use the first
	// address that hostname -I prints on the first host.
	MasterAddr string `json:"master_addr"`
	MasterPort int    `json:"master_port"`
	SSHPort    int    `json:"ssh_port,omitempty"`
	// AsksFirst means that DeepSpeed itself logs in to the first host over ssh before anything
	// starts, with any launcher: to test the login, or to get the master address. AsksFirst is only
	// set if there is a command, because only a command shows --no_ssh_check and --master_addr.
	AsksFirst bool `json:"asks_first,omitempty"`
	// SlurmJob means that the command is typed inside a Slurm job.
	SlurmJob bool `json:"slurm_job,omitempty"`
	// HostsFile is the hostfile that was read, "" for none.
	HostsFile string `json:"hostfile,omitempty"`
	// Meant maps names that have no address, if no hostfile lists the nodes, to the name that the
	// user likely meant.
	Meant map[string]string `json:"meant,omitempty"`
	// Excluded lists the hosts of the hostfile that the filters leave out, in the order of the
	// hostfile.
	Excluded []string `json:"left_out,omitempty"`
	// Rendezvous is how the ranks find each other: deepspeed, static, c10d or another backend of
	// torchrun; "" means deepspeed. RdzvEndpoint is torchrun's endpoint, and RdzvID the run ID on its command line.
	Rendezvous   string `json:"rendezvous"`
	RdzvEndpoint string `json:"rdzv_endpoint,omitempty"`
	RdzvID       string `json:"rdzv_id,omitempty"`
	// Accelerator is cuda or cpu. With cpu a slot is a process. AcceleratorAssumed means that
	// nothing names the accelerator, see [Prediction.Resolved].
	Accelerator        string `json:"accelerator"`
	AcceleratorAssumed bool   `json:"accelerator_open,omitempty"`
	// CPUTyped means that DS_ACCELERATOR=cpu is set where the launch is typed. The variable may not
	// reach the ranks, but it shows that CPU training is intended if the nodes have no GPUs.
	CPUTyped bool   `json:"-"`
	WorkDir  string `json:"workdir"` // absolute, on the launching machine and on every node
	// Interpreter is the python that every node will run, "" if unknown. InterpreterFrom says where
	// the path of the interpreter comes from.
	Interpreter     string `json:"interpreter"`
	InterpreterFrom string `json:"interpreter_from"` // "--python", "/usr/bin/deepspeed", ""
	// Exports lists the variables that the launcher sets on every node: variables of the launching
	// machine that the launcher selects by prefix, then those of .deepspeed_env.
	Exports []facts.Setting `json:"exports,omitempty"`
	// EnvFile is the absolute path of the file to which a line must be added to export a variable,
	// "" for ~/.deepspeed_env.
	EnvFile string `json:"env_file,omitempty"`
	// Notes describe surprising effects of the hostfile, the filters, the launcher and its
	// arguments.
	Notes []hostfile.Note `json:"notes,omitempty"`

	// Command is what DeepSpeed will start on the launching machine. It is empty if the script,
	// slots or interpreter are unknown. CommandEnv lists the variables that DeepSpeed adds to the
	// environment of Command. Three words are only known at launch time: $MASTER_ADDR, $PID
	// (DeepSpeed's own process) and $DEEPSPEED (the directory of its package). The exports are
	// sorted by name, because facts do not keep the order of the environment.
	Command    []string        `json:"command,omitempty"`
	CommandEnv []facts.Setting `json:"command_env,omitempty"`
	Script     string          `json:"script,omitempty"` // as typed
	Module     bool            `json:"module,omitempty"`
	ByModule   bool            `json:"by_module,omitempty"` // typed as python -m and a module, for example torch.distributed.run
	NoPython   bool            `json:"no_python,omitempty"`
	Arguments  []string        `json:"arguments,omitempty"` // arguments of the script
	VenvScript string          `json:"venv_script,omitempty"`
	// LauncherArgs holds --launcher_args, split into words as the launcher gets them. In
	// LauncherArgs, Arguments and Command, secrets are replaced by "…".
	LauncherArgs []string `json:"launcher_args,omitempty"`
	NoSSH        bool     `json:"no_ssh,omitempty"`  // every node is started by hand
	Elastic      bool     `json:"elastic,omitempty"` // DeepSpeed's own elastic training
	// MinNodes, MaxNodes and PerNode are torchrun's own options. For other programs they are 0 and
	// "".
	MinNodes int    `json:"min_nodes,omitempty"`
	MaxNodes int    `json:"max_nodes,omitempty"`
	PerNode  string `json:"per_node,omitempty"`
	// Files lists the script and the files that its arguments name, with absolute paths.
	Files []facts.LaunchFile `json:"files,omitempty"`
	// Places lists the directories, named by the command, in which ranks leave files for other
	// ranks.
	Places []facts.LaunchFile `json:"places,omitempty"`
	// Models lists the models and data sets that the command names by their names on the Hugging
	// Face Hub.
	Models []facts.ModelNamed `json:"models,omitempty"`
	// NodeLocal means that each node keeps its own complete checkpoints.
	NodeLocal bool             `json:"node_local,omitempty"`
	Config    *dsconfig.Config `json:"config,omitempty"` // the DeepSpeed configuration, nil for none
	// Imports lists the packages that every node imports regardless of the script. It is nil if the
	// command is unknown.
	Imports []string `json:"imports,omitempty"`
	// Timeout is how long the ranks wait for each other at the start. TimeoutFrom is the rule that
	// sets Timeout.
	Timeout     float64 `json:"timeout,omitempty"` // seconds
	TimeoutFrom string  `json:"timeout_from,omitempty"`
}

// Torchrun reports whether torchrun starts the ranks, with any rendezvous. A user or a scheduler
// starts torchrun itself on every node. torchrun reads no .deepspeed_env and exports nothing.
func (p Prediction) Torchrun() bool {
	return p.Rendezvous != "" && p.Rendezvous != RendezvousDeepSpeed
}

// Predict returns what the launch will do. head is the launching machine and may be nil. Facts that
// head lacks are left out of the prediction. An error says what DeepSpeed itself refuses about the
// options and hosts. It is or wraps a [*hostfile.FilterError] or a [*UsageError]. [Parse] has
// already reported what torchrun and accelerate refuse.
func Predict(o Options, head *facts.Node) (Prediction, error) {
	var seen facts.Facts
	if head != nil {
		seen = head.Facts
	}
	r := runner{Options: o, env: o.inherited(seen.Env), launcher: strings.ToLower(cmp.Or(o.Launcher, DefaultLauncher))}
	r.by = launcherNamed(r.launcher)
	if err := o.Refused(); err != nil {
		return Prediction{}, err
	}
	r.Filter.DeepSpeed = o.DeepSpeed
	var notes []hostfile.Note
	var err error
	if r.active, notes, err = r.Filter.Apply(o.Hosts); err != nil {
		return Prediction{}, cmp.Or(r.refusedWithoutHosts(err), err)
	}
	if o.Unlisted {
		notes = nil
	}
	p := r.prediction()
	if inOrder := r.allocation(); !p.Local && !r.isTorchrun() && inOrder != nil {
		p.Hosts = inOrder
	}
	p.Interpreter, p.InterpreterFrom = Interpreter(o.Interpreter, seen.Launcher)
	p.Notes = slices.Concat(o.Notes, notes)
	if o.isTorchrun() {
		p.Exports = r.setByCommand()
	} else {
		r.python = p.Interpreter
		if err = r.predict(&p, head); err != nil {
			return Prediction{}, err
		}
	}
	p.Notes = slices.DeleteFunc(p.Notes, p.isIrrelevant)
	if o.Config != nil {
		p.Config = dsconfig.Read(*o.Config, o.DeepSpeed, p.WorldSize())
	}
	p.NodeLocal = o.savesOnEachNode() || p.Config != nil && p.Config.NodeLocal
	p.Imports = p.imports()
	return p, nil
}

func (r runner) prediction() Prediction {
	typed, _ := Lookup(r.env, "DS_ACCELERATOR")
	p := Prediction{
		Program:            cmp.Or(r.Program, ProgramDeepSpeed),
		Framework:          r.Framework,
		Srun:               r.Srun != nil,
		SrunWords:          r.Srun,
		DeepSpeed:          r.DeepSpeed,
		Hosts:              r.active,
		Launcher:           r.launcher,
		Local:              r.isLocal() && !r.NoSSH,
		MasterAddr:         r.MasterAddr,
		MasterPort:         r.masterPort(),
		SSHPort:            r.SSHPort,
		AsksFirst:          r.Script != "" && r.HostsFile != "" && r.asksFirst(),
		SlurmJob:           r.SlurmJob || r.has("SLURM_JOB_ID"),
		Accelerator:        cmp.Or(r.Accelerator, "cuda"),
		AcceleratorAssumed: r.Accelerator == "",
		CPUTyped:           typed == "cpu",
		WorkDir:            r.WorkDir,
		Rendezvous:         cmp.Or(r.Rendezvous, RendezvousDeepSpeed),
		RdzvEndpoint:       r.RdzvEndpoint,
		RdzvID:             r.RdzvID,
		Script:             r.Script,
		Module:             r.Module,
		ByModule:           r.ByModule,
		NoPython:           r.NoPython,
		Arguments:          secret.Arguments(r.Arguments),
		VenvScript:         r.VenvScript,
		NoSSH:              r.NoSSH,
		Elastic:            r.Elastic,
		MinNodes:           r.MinNodes,
		MaxNodes:           r.MaxNodes,
		PerNode:            r.PerNode,
		Files:              FilesNamed(r.Options),
		Places:             PlacesNamed(r.Options),
		Models:             ModelsNamed(r.Options),
		HostsFile:          r.HostsFile,
		Excluded:           r.excluded(),
	}
	if r.NoSSH || p.Torchrun() {
		p.Launcher = ""
	}
	if all := slotsOf(r.Hosts); p.Launcher != "" && !p.Local && r.asksForAllSlots() && all != slotsOf(r.active) {
		p.Total = all
	}
	return p
}

func (r runner) predict(p *Prediction, head *facts.Node) error {
	var err error
	if r.arguments, err = r.scriptArguments(); err != nil {
		return err
	}
	if err = r.refused(); err != nil {
		return err
	}
	p.LauncherArgs = secret.Arguments(r.words)
	if !r.isLocal() {
		var files []facts.EnvFile
		if head != nil && head.Launcher != nil {
			files = head.Launcher.EnvFiles
		}
		export := exporter{Launcher: p.Launcher, Accelerator: r.exporting(head), WorkDir: p.WorkDir, DeepSpeed: p.DeepSpeed, Accelerate: p.Program == ProgramAccelerate}
		var traps []hostfile.Note
		p.Exports, traps = export.Settings(r.env, files)
		p.Notes = append(p.Notes, traps...)
		p.EnvFile = export.lastFile(r.env, files)
		r.exports = export.exported(r.env, files)
		for i := range r.exports {
			r.exports[i].Value = export.quoted(r.exports[i].Value)
		}
	}
	p.Notes = append(p.Notes, r.notes()...)
	var late []hostfile.Note
	p.Timeout, p.TimeoutFrom, late = startTimeout(*p, r.env)
	p.Notes = append(p.Notes, late...)
	r.arguments, r.words = secret.Arguments(r.arguments), secret.Arguments(r.words)
	p.Command, p.CommandEnv = r.command(), r.environment()
	return nil
}

// HostNames returns the names of the hosts, in the order of the hostfile.
func (p Prediction) HostNames() []string {
	names := make([]string, len(p.Hosts))
	for i, host := range p.Hosts {
		names[i] = host.Name
	}
	return names
}
