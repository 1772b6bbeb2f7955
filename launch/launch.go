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

// Options is what the command line says of the launch.
type Options struct {
	Hosts []hostfile.Host // what the filters left, in rank order
	Notes []hostfile.Note // what reading and filtering them noted
	// Filtered is whether include, exclude, num_nodes or num_gpus was given
	// at all, which the MPI launchers refuse.
	Filtered    bool
	ForceMulti  bool   // --force_multi
	Launcher    string // any case; "" is pdsh
	MasterAddr  string
	MasterPort  int    // 0 is the default
	SSHPort     int    // 0 is ssh's own choice
	Accelerator string // cuda or cpu; "" is cuda
	WorkDir     string // absolute
	Interpreter string // --python
	DeepSpeed   string // version, "" for the newest
	// Rendezvous is deepspeed, static or c10d, "" for deepspeed; RdzvEndpoint is
	// torchrun's host[:port] for the latter two.
	Rendezvous   string
	RdzvEndpoint string
}

// Prediction is what the launch will do.
type Prediction struct {
	Hosts    []hostfile.Host `json:"hosts"`    // active hosts in rank order
	Launcher string          `json:"launcher"` // pdsh, openmpi, mpich, impi, mvapich, slurm
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
	// Notes are the traps of the hostfile, the filters and the launcher.
	Notes []hostfile.Note `json:"notes,omitempty"`
}

// Torchrun is whether ranks are started by torchrun, by hand or by a scheduler
// on every node: it reads no .deepspeed_env and exports nothing.
func (p Prediction) Torchrun() bool {
	return p.Rendezvous == RendezvousStatic || p.Rendezvous == RendezvousC10d
}

// Predict says what the launch will do. head is the launching machine; what
// was not seen of it, or all of it when nil, is left out of the prediction.
func Predict(o Options, head *facts.Node) Prediction {
	var seen facts.Facts
	if head != nil {
		seen = head.Facts
	}
	p := Prediction{
		Hosts:        o.Hosts,
		Launcher:     strings.ToLower(cmp.Or(o.Launcher, Launchers[0])),
		Local:        len(o.Hosts) == 1 && !o.ForceMulti,
		MasterAddr:   o.MasterAddr,
		MasterPort:   cmp.Or(o.MasterPort, DefaultMasterPort),
		SSHPort:      o.SSHPort,
		Accelerator:  cmp.Or(o.Accelerator, "cuda"),
		WorkDir:      o.WorkDir,
		Rendezvous:   cmp.Or(o.Rendezvous, RendezvousDeepSpeed),
		RdzvEndpoint: o.RdzvEndpoint,
		Notes:        slices.Clone(o.Notes),
	}
	p.Interpreter, p.InterpreterFrom = Interpreter(o.Interpreter, seen.Launcher)
	if p.Local || p.Torchrun() {
		return p // no launcher, no exports
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
	return p
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
	if o.Filtered && mpi {
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
