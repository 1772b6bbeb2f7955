// Package launch predicts, by rule alone, what DeepSpeed's launcher, torch and
// NCCL will do with these hosts, this command line and this environment: who
// starts what, with which interpreter, which variables a rank really sees, on
// which addresses the ranks listen and where they meet, how much shared memory
// NCCL takes.
//
// Every rule names the foreign source and version it was read from. The
// package refuses to look at anything (no file, no network, no clock) and to
// judge what it predicts: that is for checks.
package launch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
)

// DefaultMasterPort is torch's rendezvous port unless --master_port says
// otherwise (deepspeed/constants.py, TORCH_DISTRIBUTED_DEFAULT_PORT).
const DefaultMasterPort = 29500

// Launchers are the values of --launcher; the first is the default.
var Launchers = []string{"pdsh", "openmpi", "mpich", "impi", "mvapich", "slurm"}

// The programs that a launch is typed with, the values of Options.Program.
const (
	ProgramDeepSpeed  = "deepspeed"
	ProgramTorchrun   = "torchrun"
	ProgramAccelerate = "accelerate" // launch --use_deepspeed: it starts deepspeed in turn
)

// Options is what the command line says of the launch.
type Options struct {
	Program string          // "" is deepspeed
	Hosts   []hostfile.Host // what the hostfile says, before the filter
	Notes   []hostfile.Note // what reading it noted
	// Unlisted hosts are in nobody's hostfile (-w, an allocation): what DeepSpeed
	// would make of their names is not told.
	Unlisted     bool
	Filter       hostfile.Filter
	NoSSH        bool // --no_ssh: every node is started by hand
	NoSSHCheck   bool
	NodeRank     int    // --node_rank
	Launcher     string // any case; "" is pdsh
	LauncherArgs string
	MasterAddr   string
	MasterPort   int    // 0 is the default
	SSHPort      int    // 0 is ssh's own choice
	Accelerator  string // cuda or cpu; "" is cuda
	WorkDir      string // absolute
	Interpreter  string // --python
	DeepSpeed    string // version, "" for the newest
	// Rendezvous is deepspeed, static or c10d, "" for deepspeed; RdzvEndpoint is
	// torchrun's host[:port] for the latter two.
	Rendezvous   string
	RdzvEndpoint string
	// MinNodes and MaxNodes are torchrun's --nnodes, 0 when it was not asked;
	// PerNode is its --nproc_per_node: a number, auto, gpu or cpu.
	MinNodes, MaxNodes int
	PerNode            string

	Script      string   // as typed; "" when only the hosts are to be judged
	Arguments   []string // of the script
	Module      bool     // --module: Script is a module's name
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
	// Config is the DeepSpeed configuration by its text, nil when none was named
	// or none could be read.
	Config *ConfigText
}

// ConfigText is a DeepSpeed configuration file.
type ConfigText struct {
	Path string
	Text string
}

// Prediction is what the launch will do.
type Prediction struct {
	Program   string          `json:"program,omitempty"`   // deepspeed, torchrun, accelerate
	DeepSpeed string          `json:"deepspeed,omitempty"` // the release whose rules hold, "" for the newest
	Hosts     []hostfile.Host `json:"hosts"`               // active hosts in rank order
	Launcher  string          `json:"launcher"`            // pdsh, openmpi, mpich, impi, mvapich, slurm
	// Local is set when DeepSpeed will start the only host's ranks on the
	// launching machine, without ssh and with its own environment.
	Local bool `json:"local"`
	// MasterAddr is the address given, "" when DeepSpeed will take the first
	// word that `hostname -I` prints on the first host.
	MasterAddr string `json:"master_addr"`
	MasterPort int    `json:"master_port"`
	SSHPort    int    `json:"ssh_port,omitempty"`
	// Rendezvous is how the ranks will find each other: deepspeed, static or
	// c10d, "" for deepspeed. RdzvEndpoint is what torchrun was given for it.
	Rendezvous   string `json:"rendezvous"`
	RdzvEndpoint string `json:"rdzv_endpoint,omitempty"`
	// Accelerator is cuda or cpu. With cpu a slot is a process.
	Accelerator string `json:"accelerator"`
	WorkDir     string `json:"workdir"` // absolute, on the launching machine and on every node
	// Interpreter is the python every node will be told to run, "" when
	// nothing here says which; InterpreterFrom says how we know.
	Interpreter     string `json:"interpreter"`
	InterpreterFrom string `json:"interpreter_from"` // "--python", "/usr/bin/deepspeed", ""
	// Exports are the variables the launcher sets on every node: those of the
	// launching machine it picks by prefix, then .deepspeed_env.
	Exports []facts.Setting `json:"exports,omitempty"`
	// Notes are the traps of the hostfile, the filters, the launcher and its
	// arguments.
	Notes []hostfile.Note `json:"notes,omitempty"`

	// Command is what DeepSpeed will start on the launching machine, and
	// CommandEnv what it sets for that beside its own environment; both empty
	// where no script is known. $MASTER_ADDR and $PID in it are told only then.
	Command    []string        `json:"command,omitempty"`
	CommandEnv []facts.Setting `json:"command_env,omitempty"`
	Script     string          `json:"script,omitempty"` // as typed
	Module     bool            `json:"module,omitempty"`
	NoPython   bool            `json:"no_python,omitempty"`
	Arguments  []string        `json:"arguments,omitempty"` // of the script
	VenvScript string          `json:"venv_script,omitempty"`
	NoSSH      bool            `json:"no_ssh,omitempty"`  // every node is started by hand
	Elastic    bool            `json:"elastic,omitempty"` // DeepSpeed's own elastic training
	// MinNodes, MaxNodes and PerNode are what torchrun was told, 0 and "" otherwise.
	MinNodes int    `json:"min_nodes,omitempty"`
	MaxNodes int    `json:"max_nodes,omitempty"`
	PerNode  string `json:"per_node,omitempty"`
	// Files are the script and what its arguments name, by absolute path.
	Files  []facts.LaunchFile `json:"files,omitempty"`
	Config *Config            `json:"config,omitempty"` // the DeepSpeed configuration, nil for none
	// Timeout is how long the ranks wait for each other when they start, and
	// TimeoutFrom the rule.
	Timeout     float64 `json:"timeout,omitempty"` // seconds
	TimeoutFrom string  `json:"timeout_from,omitempty"`
}

// Torchrun is whether ranks are started by torchrun, by hand or by a scheduler
// on every node: it reads no .deepspeed_env and exports nothing.
func (p Prediction) Torchrun() bool {
	return p.Rendezvous == RendezvousStatic || p.Rendezvous == RendezvousC10d
}

// Predict says what the launch will do. head is the launching machine; what
// was not seen of it, or all of it when nil, is left out of the prediction. An
// error is what DeepSpeed itself refuses.
func Predict(o Options, head *facts.Node) (Prediction, error) {
	var seen facts.Facts
	if head != nil {
		seen = head.Facts
	}
	o.Filter.DeepSpeed = o.DeepSpeed
	hosts, notes, err := o.Filter.Apply(o.Hosts)
	if err != nil {
		return Prediction{}, err
	}
	if o.Unlisted {
		notes = nil
	}
	p := Prediction{
		Program:      cmp.Or(o.Program, ProgramDeepSpeed),
		DeepSpeed:    o.DeepSpeed,
		Hosts:        hosts,
		Launcher:     strings.ToLower(cmp.Or(o.Launcher, Launchers[0])),
		Local:        len(hosts) == 1 && !o.Filter.ForceMulti,
		MasterAddr:   o.MasterAddr,
		MasterPort:   cmp.Or(o.MasterPort, DefaultMasterPort),
		SSHPort:      o.SSHPort,
		Accelerator:  cmp.Or(o.Accelerator, "cuda"),
		WorkDir:      o.WorkDir,
		Rendezvous:   cmp.Or(o.Rendezvous, RendezvousDeepSpeed),
		RdzvEndpoint: o.RdzvEndpoint,
		Notes:        slices.Concat(o.Notes, notes),
		Script:       o.Script,
		Module:       o.Module,
	}
	p.Interpreter, p.InterpreterFrom = Interpreter(o.Interpreter, seen.Launcher)
	if p.Local || p.Torchrun() {
		return p, nil // no launcher, no exports
	}
	p.Notes = append(p.Notes, launcherTraps(p.Launcher, o)...)
	var files []facts.EnvFile
	if seen.Launcher != nil {
		files = seen.Launcher.EnvFiles
	}
	export := Exporter{Launcher: p.Launcher, Accelerator: p.Accelerator, WorkDir: p.WorkDir, DeepSpeed: o.DeepSpeed}
	var traps []hostfile.Note
	p.Exports, traps = export.Settings(seen.Env, files)
	p.Notes = append(p.Notes, traps...)
	return p, nil
}

// launcherTraps are the ways in which a launcher other than pdsh does not do
// what its command line asks for (deepspeed/launcher/multinode_runner.py,
// 0.19.6 of development; validate_args and get_cmd of each runner).
func launcherTraps(launcher string, o Options) []hostfile.Note {
	var notes []hostfile.Note
	note := func(trap, format string, values ...any) {
		notes = append(notes, hostfile.Note{Trap: trap, Message: fmt.Sprintf(format, values...)})
	}
	mpi := slices.Contains([]string{"openmpi", "mpich", "impi", "mvapich"}, launcher)
	if o.Filter.Given() && mpi {
		note("launcher-refuses-filter", `DeepSpeed refuses --include, --exclude, --num_nodes and --num_gpus with --launcher %s ("backend does not support worker include/exclusion"): write a hostfile with the wanted hosts instead`, launcher)
	}
	if mpi && launcher != "openmpi" && !sameSlots(o.Hosts) {
		note("launcher-needs-equal-slots", `--launcher %s "requires same number of devices per node", and the hostfile's slots differ: make them equal, or use --launcher pdsh`, launcher)
	}
	if o.MasterAddr != "" && !handsMasterOn(launcher) {
		note("master-addr-ignored", "--launcher %s passes no master address on; the ranks take the first word of `hostname -I` on rank 0 and port %d, not %s", launcher, DefaultMasterPort, o.MasterAddr)
	}
	if launcher == "slurm" {
		note("hostfile-ignored", "--launcher slurm takes only the total of slots from the hostfile; which nodes run is srun's choice")
	}
	return notes
}

func sameSlots(hosts []hostfile.Host) bool {
	for _, host := range hosts {
		if len(host.Slots) != len(hosts[0].Slots) {
			return false
		}
	}
	return true
}
