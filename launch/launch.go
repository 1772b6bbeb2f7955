// SPDX-License-Identifier: Apache-2.0

// Package launch predicts, by rule alone, what DeepSpeed's launcher, torchrun,
// accelerate, torch and NCCL will do with these hosts, this command line and this
// environment: what of it they refuse, which configuration they accept, who
// starts what, with which interpreter, which variables a rank really sees, on
// which addresses the ranks listen and where they meet, how much shared memory
// NCCL takes.
//
// Every rule names the foreign source and version it was read from. The
// package refuses to look at anything but what it is handed (no file, no network,
// no clock; accelerate's configuration is read by [Surroundings]) and to judge what
// it predicts: that is for checks.
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

// DefaultMasterPort is torch's rendezvous port unless --master_port says
// otherwise (deepspeed/constants.py, TORCH_DISTRIBUTED_DEFAULT_PORT).
const DefaultMasterPort = 29500

// Programs are what a launch is typed with, the values of Options.Program.
var Programs = []string{ProgramDeepSpeed, ProgramTorchrun, ProgramAccelerate}

const (
	ProgramDeepSpeed  = "deepspeed"
	ProgramTorchrun   = "torchrun"
	ProgramAccelerate = "accelerate" // launch --use_deepspeed: it starts deepspeed in turn
)

// Options is what the command line says of the launch.
type Options struct {
	Program string // "" is deepspeed
	// Framework is the program that was typed and starts Program in turn: swift; "" for none.
	Framework string
	// TypedAs is the program's path where the command is started on every node, and by a path.
	TypedAs string
	// HostsFile is the hostfile as it was named, which Open MPI is handed; "" for none.
	HostsFile string
	Hosts     []hostfile.Host // what the hostfile says, before the filter
	Notes     []hostfile.Note // what reading it noted
	// Unlisted hosts are in nobody's hostfile (-w, an allocation): what DeepSpeed
	// would make of their names does not matter.
	Unlisted     bool
	Filter       hostfile.Filter
	NoSSH        bool // --no_ssh: every node is started by hand
	NoSSHCheck   bool
	NodeRank     int    // --node_rank
	Launcher     string // a name of [Launchers] in any case; "" is the default
	LauncherArgs string
	MasterAddr   string
	MasterPort   int // 0 is the default
	SSHPort      int // 0 is ssh's own choice
	// Accelerator is cuda or cpu, "" where nobody says which: the launching machine's
	// own then decides what is exported, and the nodes are judged for cuda.
	Accelerator string
	WorkDir     string // absolute
	// Set are the names of the variables that are set for the command where it is typed: before it, or by
	// the script that runs it.
	Set         []string
	Interpreter string // --python
	DeepSpeed   string // version, "" for the newest
	// Rendezvous is deepspeed, static, c10d or another of torchrun's backends, "" for
	// deepspeed; RdzvEndpoint is torchrun's host[:port] for all but the first.
	Rendezvous   string
	RdzvEndpoint string
	// SlurmJob is whether it will be typed inside a Slurm job, though it is judged outside.
	SlurmJob bool
	// MinNodes and MaxNodes are torchrun's --nnodes, 0 when it was not asked;
	// PerNode is its --nproc_per_node: a number, auto, gpu or cpu.
	MinNodes, MaxNodes int
	PerNode            string

	Script      string   // as typed; "" when only the hosts are to be judged
	Arguments   []string // of the script
	Module      bool     // --module: Script is a module's name
	ByModule    bool     // typed as python -m, and not by the program's name
	NoPython    bool     // --no_python: Script is a program
	NoLocalRank bool
	SavePID     bool
	EachRankLog string // --enable_each_rank_log; "" is DeepSpeed's "None"
	Autotuning  string
	VenvScript  string
	BindCores   bool
	CoreList    string // --bind_core_list
	LogLevel    string // "" is info
	Quiet       bool
	// Elastic is --elastic_training, gone in v0.19.8; the numbers are -1 when not given.
	Elastic                bool
	MinElastic, MaxElastic int
	// ConfigFile is a DeepSpeed configuration that no argument of the script names, but
	// accelerate or a configuration that the script is handed.
	ConfigFile string
	// Reads are what may be paths in a configuration that the script is handed, and Configured
	// are its entries as options: --output_dir=out.
	Reads      []string
	Configured []string
	// Config is the DeepSpeed configuration, nil when none was named or none could be read.
	Config *dsconfig.File
}

// Prediction is what the launch will do.
type Prediction struct {
	Program   string          `json:"program,omitempty"`   // deepspeed, torchrun, accelerate
	Framework string          `json:"framework,omitempty"` // what was typed, and starts it in turn: swift
	DeepSpeed string          `json:"deepspeed,omitempty"` // the release whose rules hold, "" for the newest
	Hosts     []hostfile.Host `json:"hosts"`               // active hosts in rank order
	Launcher  string          `json:"launcher"`            // a name of [Launchers]; "" with NoSSH and for torchrun
	// Total is how many ranks srun is asked for where a filter has left another number
	// of slots: before v0.19.7 as many as the whole hostfile has.
	Total int `json:"total,omitempty"`
	// Local is set when DeepSpeed will start the only host's ranks on the
	// launching machine, without ssh and with its own environment.
	Local bool `json:"local"`
	// MasterAddr is the address given, "" when DeepSpeed will take the first
	// word that `hostname -I` prints on the first host.
	MasterAddr string `json:"master_addr"`
	MasterPort int    `json:"master_port"`
	SSHPort    int    `json:"ssh_port,omitempty"`
	// AsksFirst is whether DeepSpeed itself logs in to the first host by ssh before anything
	// starts, whatever the launcher: to see that it can, or for the master address. It is
	// said of a command alone, which would give --no_ssh_check and --master_addr.
	AsksFirst bool `json:"asks_first,omitempty"`
	// SlurmJob is whether it is typed inside a Slurm job.
	SlurmJob bool `json:"slurm_job,omitempty"`
	// HostsFile is the hostfile that was read, "" for none.
	HostsFile string `json:"hostfile,omitempty"`
	// Excluded are the names of its hosts that the filters leave out, in its order.
	Excluded []string `json:"left_out,omitempty"`
	// Rendezvous is how the ranks will find each other: deepspeed, static, c10d or
	// another of torchrun's backends, "" for deepspeed. RdzvEndpoint is what torchrun
	// was given for it.
	Rendezvous   string `json:"rendezvous"`
	RdzvEndpoint string `json:"rdzv_endpoint,omitempty"`
	// Accelerator is cuda or cpu. With cpu a slot is a process. AcceleratorAssumed is
	// whether nobody said which: see [Prediction.Resolved].
	Accelerator        string `json:"accelerator"`
	AcceleratorAssumed bool   `json:"accelerator_open,omitempty"`
	// CPUTyped is whether DS_ACCELERATOR=cpu is set where the launch is typed. It need not
	// reach the ranks, but says what is meant where they have nothing else.
	CPUTyped bool   `json:"-"`
	WorkDir  string `json:"workdir"` // absolute, on the launching machine and on every node
	// Interpreter is the python every node will run, "" when
	// nothing here says which; InterpreterFrom says how we know.
	Interpreter     string `json:"interpreter"`
	InterpreterFrom string `json:"interpreter_from"` // "--python", "/usr/bin/deepspeed", ""
	// Exports are the variables the launcher sets on every node: those of the
	// launching machine it picks by prefix, then .deepspeed_env.
	Exports []facts.Setting `json:"exports,omitempty"`
	// Notes are the traps of the hostfile, the filters, the launcher and its
	// arguments.
	Notes []hostfile.Note `json:"notes,omitempty"`

	// Command is what DeepSpeed will start on the launching machine, empty where
	// script, slots or interpreter are not known, and CommandEnv what it sets for
	// the launcher beside its own environment. Known only then are $MASTER_ADDR, $PID,
	// which is DeepSpeed's own process, and $DEEPSPEED, the directory of its package.
	// The exports come in the order of their names, for facts do not keep that of the
	// environment.
	Command    []string        `json:"command,omitempty"`
	CommandEnv []facts.Setting `json:"command_env,omitempty"`
	Script     string          `json:"script,omitempty"` // as typed
	Module     bool            `json:"module,omitempty"`
	ByModule   bool            `json:"by_module,omitempty"` // typed as python -m torch.distributed.run, say
	NoPython   bool            `json:"no_python,omitempty"`
	Arguments  []string        `json:"arguments,omitempty"` // of the script
	VenvScript string          `json:"venv_script,omitempty"`
	// LauncherArgs are --launcher_args as the launcher gets them, split. In these,
	// in Arguments and in Command secrets are replaced by "…".
	LauncherArgs []string `json:"launcher_args,omitempty"`
	NoSSH        bool     `json:"no_ssh,omitempty"`  // every node is started by hand
	Elastic      bool     `json:"elastic,omitempty"` // DeepSpeed's own elastic training
	// MinNodes, MaxNodes and PerNode are torchrun's own options, 0 and "" otherwise.
	MinNodes int    `json:"min_nodes,omitempty"`
	MaxNodes int    `json:"max_nodes,omitempty"`
	PerNode  string `json:"per_node,omitempty"`
	// Files are the script and what its arguments name, by absolute path.
	Files []facts.LaunchFile `json:"files,omitempty"`
	// Places are the directories that the command names for what ranks leave to others.
	Places []facts.LaunchFile `json:"places,omitempty"`
	// Models are the models and data sets that it names as the Hub of Hugging Face does.
	Models []facts.ModelNamed `json:"models,omitempty"`
	// NodeLocal is whether each node is to keep checkpoints that are whole by themselves.
	NodeLocal bool             `json:"node_local,omitempty"`
	Config    *dsconfig.Config `json:"config,omitempty"` // the DeepSpeed configuration, nil for none
	// Imports are the packages that every node imports, whatever the script does, nil where
	// no command says what is started.
	Imports []string `json:"imports,omitempty"`
	// Timeout is how long the ranks wait for each other when they start, and
	// TimeoutFrom the rule.
	Timeout     float64 `json:"timeout,omitempty"` // seconds
	TimeoutFrom string  `json:"timeout_from,omitempty"`
}

// Torchrun is whether ranks are started by torchrun, by hand or by a scheduler
// on every node, whatever its rendezvous: it reads no .deepspeed_env and exports
// nothing.
func (p Prediction) Torchrun() bool {
	return p.Rendezvous != "" && p.Rendezvous != RendezvousDeepSpeed
}

// Predict says what the launch will do. head is the launching machine; what
// was not seen of it, or all of it when nil, is left out of the prediction. An
// error is what DeepSpeed itself refuses of the options and the hosts, a
// [*hostfile.FilterError] or a [*UsageError], or holds one; what torchrun and
// accelerate refuse of their command lines [Parse] has said before.
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

// HostNames are those of the hostfile, in its order.
func (p Prediction) HostNames() []string {
	names := make([]string, len(p.Hosts))
	for i, host := range p.Hosts {
		names[i] = host.Name
	}
	return names
}
