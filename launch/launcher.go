// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
)

// DefaultLauncher is what DeepSpeed starts without --launcher.
const DefaultLauncher = "pdsh"

// Launcher is what a value of --launcher stands for. Whatever differs from one to
// another is said in its row of [Launchers], and whoever has to know asks the row.
type Launcher struct {
	Name  string
	since string // the first release that has it, "" for all

	// Programs are what DeepSpeed looks for in PATH of the launching machine, and last
	// what it then runs (multinode_runner.py, backend_exists and get_cmd).
	Programs []string
	// MPIRun is whose options its mpirun gets, "" where it runs none.
	MPIRun string
	// PDSH is whether it is pdsh, whose modules facts list and which can be run over the
	// nodes beforehand.
	PDSH bool
	// Allocation is the variable that lists the nodes it may start on, "" for any.
	Allocation string

	// SSH is whether ranks are started over ssh.
	SSH bool
	// SrunInJob is whether it starts them by srun instead where it finds itself in a Slurm
	// job: [Prediction.StartedBy] then is without SSH.
	SrunInJob bool
	// InSession is whether ranks live in a login session, which ends when they do.
	InSession bool
	// Tree is up to how many hosts the launching machine starts all of them by itself;
	// of more, some nodes start others, and look their names up for it. 0 is of those
	// where no node does, as Hydra of MPICH and MVAPICH. treeOption is what word of
	// --launcher_args stands before another width.
	//
	// Source: Open MPI 4.1, orte/mca/routed/radix/routed_radix_component.c, radix 64, by
	// which orte/mca/plm/rsh/plm_rsh_module.c starts; MPICH 4.0,
	// src/pm/hydra/tools/bootstrap/external/external_common_launch.c; srun: slurm.conf(5),
	// TreeWidth; Intel MPI: I_MPI_HYDRA_BRANCH_COUNT, by default 16 in 2021.6, whose
	// log shows it (volcano-sh/volcano 2398).
	Tree       int
	treeOption string
	// NoCallBack is why nothing that it starts has to reach the launching machine on a port
	// of its own, "" where it does: see [Prediction.CallBack].
	NoCallBack string
	// SessionSpace is how many bytes it takes of TMPDIR, or /tmp, on every node where it is
	// to start anything, 0 for none.
	//
	// Source: Open MPI 4.1, orte/util/session_dir.c, orte_session_dir; the segments that its
	// PMIx maps there, openpmix 3.2, src/mca/common/dstore/dstore_common.h. Tried with 4.1.4.
	SessionSpace int64
	// MPIDiscovery is whether ranks learn neither master address nor port: they ask MPI
	// who is rank 0, and that one runs `hostname -I` itself and takes the default port
	// (deepspeed/comm/comm.py, mpi_discovery).
	MPIDiscovery bool
	// LaunchPy is whether every node runs DeepSpeed's launch.py, which starts the ranks
	// there and sets CUDA_VISIBLE_DEVICES to the slots, whatever it was.
	LaunchPy bool
	// helperSince is the release from which a helper of DeepSpeed's starts each rank, "" for none.
	helperSince string
	// Shell is whether the exports are a part of one command that a shell on every node reads.
	Shell bool
	// NoWorkDir is what becomes of a node without the working directory {dir}, where
	// {error} is the system's word for that; ranks then start in Elsewhere, "" for the home
	// directory, {home}.
	NoWorkDir, Elsewhere string

	// Environment is what of the launching machine's environment reaches the ranks.
	Environment Environment
	// exportsSince is the release before which the exports are put together and forgotten.
	exportsSince string
	// presets are exported before anything else, and overrides after all of it.
	presets, overrides func(exporter) []string

	// wholeHostfile is whether it takes every host and slot of the hostfile and refuses
	// filters; allSlotsUntil is the release up to which it asks for as many ranks as the
	// whole hostfile has slots, whatever a filter leaves of them.
	wholeHostfile bool
	allSlotsUntil string
	// evenName is what it calls itself where it refuses hosts whose slots differ, from
	// evenSince on; "" where it does not.
	evenName, evenSince string
	argsSince           string   // the release that first hands --launcher_args on
	forwards            []string // the options that go further than the launching machine

	command     func(runner) []string        // that the runner starts
	environment func(runner) []facts.Setting // that it sets for that, beside PYTHONPATH
	// refusesHosts is asked first of all and even where a single host is left, refuses
	// where the launcher will start.
	refusesHosts, refuses func(runner) error
	notes                 func(runner) []hostfile.Note // see runner.notes
}

// Environment is what of the launching machine's environment reaches the ranks.
type Environment int

const (
	// EnvironmentOpen is what DeepSpeed exports, and whatever the nodes and MPI's process
	// manager add to it.
	EnvironmentOpen Environment = iota
	// EnvironmentExported is what DeepSpeed exports and nothing else.
	EnvironmentExported
	// EnvironmentWhole is all of it, as it is, with the exports over it.
	EnvironmentWhole
)

const mpirunWorkDir = "mpirun starts the ranks in {home}"

// scriptOptions are those that are words of the script's own command.
var scriptOptions = []string{"--module", "--no_python"}

// Launchers are the values of --launcher; the first is the default.
//
// Source: deepspeed/launcher/runner.py, main, and multinode_runner.py, each class of a
// runner, v0.6.0 to 0.19.8. Who starts by srun in a job: open-mpi/ompi 4.1,
// orte/mca/plm/slurm/plm_slurm_component.c; pmodels/mpich, Hydra's bsci_init.c.in and
// slurm_query_native_int.c, 4.3.
var Launchers = []Launcher{
	{
		Name: DefaultLauncher, Programs: []string{"pdsh"}, PDSH: true,
		SSH: true, InSession: true, LaunchPy: true, Shell: true, Environment: EnvironmentExported,
		NoCallBack: "pdsh starts ranks over its own ssh connections: no node connects to the launching machine",
		NoWorkDir:  "{node}: bash: line 1: cd: {dir}: {error}",
		argsSince:  "0.8.1",
		forwards:   append([]string{"--ssh_port", "--venv_script", "--save_pid", "--enable_each_rank_log", "--elastic_training"}, scriptOptions...),
		command:    runner.pdshCommand, environment: runner.pdshEnvironment, refuses: runner.pdshRefuses, notes: runner.pdshNotes,
	},
	{
		Name: "openmpi", Programs: []string{"ompi_info", "mpirun"}, MPIRun: facts.OptionsOpenMPI,
		SSH: true, SrunInJob: true, Tree: 64, treeOption: "routed_radix", SessionSpace: 4<<10 + 4<<20 + 4<<20, MPIDiscovery: true, Environment: EnvironmentExported,
		NoWorkDir: mpirunWorkDir, presets: openMPIPresets,
		wholeHostfile: true, argsSince: "0.6.6", forwards: scriptOptions,
		command: runner.openMPICommand, refuses: runner.openMPIRefuses, notes: runner.openMPINotes,
	},
	{
		Name: "mpich", since: "0.8.2", Programs: []string{"mpirun"}, MPIRun: facts.OptionsHydra,
		SSH: true, SrunInJob: true,
		NoWorkDir: mpirunWorkDir, helperSince: "0.13.2", exportsSince: "0.9.2",
		wholeHostfile: true, evenName: "MPICH", evenSince: "0.9.3", argsSince: "0.6.6", forwards: scriptOptions,
		command: runner.mpichCommand, notes: runner.mpichNotes,
	},
	{
		Name: "impi", since: "0.9.3", Programs: []string{"mpirun"}, MPIRun: facts.OptionsHydra,
		SSH: true, Tree: 16, treeOption: "-branch-count",
		NoWorkDir: mpirunWorkDir, overrides: impiOverrides,
		wholeHostfile: true, evenName: "Intel MPI", argsSince: "0.6.6", forwards: append([]string{"--bind_cores_to_rank", "--bind_core_list"}, scriptOptions...),
		command: runner.impiCommand,
	},
	{
		Name: "mvapich", Programs: []string{"mpiname", "mpirun"}, MPIRun: facts.OptionsHydra,
		SSH: true, MPIDiscovery: true,
		NoWorkDir: mpirunWorkDir, presets: mvapichPresets,
		wholeHostfile: true, evenName: "mvapich", argsSince: "0.6.6", forwards: scriptOptions,
		command: runner.mvapichCommand,
	},
	{
		Name: "slurm", since: "0.7.4", Programs: []string{"sinfo", "srun"}, Allocation: "SLURM_JOB_NODELIST",
		Tree: 50, MPIDiscovery: true, Environment: EnvironmentWhole,
		NoCallBack: "Slurm's daemons connect to srun, on ports from Slurm's own configuration (SrunPortRange)",
		NoWorkDir:  "slurmstepd: error: couldn't chdir to `{dir}': {error}: going to /tmp instead", Elsewhere: "/tmp",
		allSlotsUntil: "0.19.7", argsSince: "0.8.1",
		command: runner.slurmCommand, refusesHosts: runner.slurmRefuses, notes: runner.slurmNotes,
	},
}

// Program is what it runs.
func (l Launcher) Program() string { return l.Programs[len(l.Programs)-1] }

// LauncherNames are the values of --launcher.
func LauncherNames() []string { return launcherNames(Launchers) }

func launcherNames(launchers []Launcher) (names []string) {
	for _, l := range launchers {
		names = append(names, l.Name)
	}
	return names
}

// LauncherPrograms are the programs of all launchers but pdsh, of which facts say more.
func LauncherPrograms() []string {
	var programs []string
	for _, l := range Launchers {
		if !l.PDSH {
			programs = append(programs, l.Programs...)
		}
	}
	slices.Sort(programs)
	return slices.Compact(programs)
}

func launcherNamed(name string) Launcher {
	if i := slices.IndexFunc(Launchers, func(l Launcher) bool { return l.Name == name }); i >= 0 {
		return Launchers[i]
	}
	return Launcher{}
}

// StartedBy is the launcher of the ranks, the zero value where every node is started by
// hand or by torchrun.
func (p Prediction) StartedBy() Launcher {
	if p.NoSSH || p.Torchrun() {
		return Launcher{}
	}
	by := launcherNamed(p.Launcher)
	if p.SlurmJob && by.SrunInJob {
		by.SSH = false
	}
	return by
}

// NodesStartOthers is whether the hosts are more than the launching machine starts by
// itself, so that some nodes reach for others.
func (p Prediction) NodesStartOthers() bool {
	by := p.StartedBy()
	tree := by.Tree
	if i := slices.Index(p.LauncherArgs, by.treeOption); by.treeOption != "" && i >= 0 && i+1 < len(p.LauncherArgs) {
		if width, err := strconv.Atoi(p.LauncherArgs[i+1]); err == nil && width > 0 {
			tree = width
		}
	}
	return tree > 0 && len(p.Hosts) > tree
}

// WithoutSSH is why ranks start on a node though nobody could log in there by ssh, "" where
// they do not.
func (p Prediction) WithoutSSH(node string) string {
	switch by := p.StartedBy(); {
	case p.NoSSH, p.Torchrun():
		return "the command is started on every node"
	case by.Name == "", by.SSH, p.AsksFirst && len(p.Hosts) > 0 && node == p.Hosts[0].Name:
		return ""
	case by.SrunInJob:
		return by.Program() + " starts ranks with srun in a Slurm job"
	default:
		return by.Program() + " starts ranks without ssh"
	}
}

// isIrrelevant is whether a note is about a launcher that this launch does not use,
// by whose name it then begins, or about ranks that are started by hand.
func (p Prediction) isIrrelevant(note hostfile.Note) bool {
	if note.ID == "single-host-runs-here" {
		return p.NoSSH || p.Torchrun()
	}
	isOf := func(l Launcher) bool { return strings.HasPrefix(note.ID, l.Name+"-") }
	return slices.ContainsFunc(Launchers, isOf) && (p.Local || !isOf(p.StartedBy()))
}
