// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
)

// DefaultLauncher is the launcher that DeepSpeed uses without --launcher.
const DefaultLauncher = "pdsh"

// Launcher describes one value of --launcher. All differences between launchers are fields of
// [Launchers], so that no other code needs to compare names.
type Launcher struct {
	Name  string
	since string // first release that has the launcher, "" for all

	// Programs lists the programs that DeepSpeed looks for in PATH of the launching machine.
	// DeepSpeed runs the last of them (multinode_runner.py, backend_exists and get_cmd).
	Programs []string
	// MPIRun is the MPI implementation whose mpirun options DeepSpeed passes, "" if the launcher
	// runs no mpirun.
	MPIRun string
	// PDSH marks pdsh. Facts contain pdsh's modules, and preflight can run pdsh over the nodes
	// before the launch.
	PDSH bool
	// Allocation is the variable that lists the nodes on which the launcher may start ranks, "" if
	// it may use any node.
	Allocation string

	// SSH means that the launcher starts ranks over ssh.
	SSH bool
	// SrunInJob means that the launcher starts ranks with srun if it runs inside a Slurm job. In a
	// job, the result of [Prediction.StartedBy] has no SSH.
	SrunInJob bool
	// InSession means that ranks belong to a login session and end with that session.
	InSession bool
	// Tree is the number of hosts up to which the launching machine starts all ranks itself. With
	// more hosts, some nodes start others and look up their names. 0 means that nodes never start
	// others, as with Hydra of MPICH and MVAPICH. treeOption is the option in --launcher_args that
	// precedes a different number.
	//
	// Source: Open MPI 4.1, orte/mca/routed/radix/routed_radix_component.c, radix 64, by which
	// orte/mca/plm/rsh/plm_rsh_module.c starts; MPICH 4.0,
	// src/pm/hydra/tools/bootstrap/external/external_common_launch.c; srun: slurm.conf(5),
	// TreeWidth; Intel MPI: I_MPI_HYDRA_BRANCH_COUNT, by default 16 in 2021.6, as seen in the log
	// of volcano-sh/volcano 2398.
	Tree       int
	treeOption string
	// NoCallBack is the reason why the programs that the launcher starts need not connect to a port
	// of the launching machine. It is "" if they connect back, see [Prediction.CallBack].
	NoCallBack string
	// SessionSpace is how many bytes of TMPDIR or /tmp the launcher needs on every node before it
	// starts anything, 0 for none.
	//
	// Source: Open MPI 4.1, orte/util/session_dir.c, orte_session_dir; the segments that its PMIx
	// maps there, openpmix 3.2, src/mca/common/dstore/dstore_common.h. Tried with 4.1.4.
	SessionSpace int64
	// MPIDiscovery means that ranks get neither master address nor port. The ranks ask MPI which
	// process is rank 0. Rank 0 runs hostname -I itself and uses the default port
	// (deepspeed/comm/comm.py, mpi_discovery).
	MPIDiscovery bool
	// LaunchPy means that every node runs DeepSpeed's launch.py, which starts the ranks there and
	// always sets CUDA_VISIBLE_DEVICES to the slots.
	LaunchPy bool
	// helperSince is the first release in which a helper program of DeepSpeed starts each rank, ""
	// if no release uses a helper.
	helperSince string
	// Shell means that the exports are part of a command that a shell on every node reads.
	Shell bool
	// NoWorkDir is the error on a node that lacks the working directory {dir}. {error} stands for
	// the system's message. Elsewhere is the directory in which the ranks start in that case, ""
	// for the home directory {home}.
	NoWorkDir, Elsewhere string

	// Environment says which part of the launching machine's environment reaches the ranks.
	Environment Environment
	// exportsSince is the first release that passes on the exports. Earlier releases collect the
	// exports and then drop them.
	exportsSince string
	// presets returns variables that are exported first, and overrides returns variables that are
	// exported last.
	presets, overrides func(exporter) []string

	// wholeHostfile means that the launcher uses every host and slot of the hostfile and refuses
	// filters. Before release allSlotsUntil, the launcher requests as many ranks as the whole
	// hostfile has slots, even with a filter.
	wholeHostfile bool
	allSlotsUntil string
	// evenName is the launcher's name in its error for hosts with different numbers of slots, "" if
	// it accepts such hosts. evenSince is the first release that reports the error.
	evenName, evenSince string
	argsSince           string   // first release that passes on --launcher_args
	forwards            []string // options that the launcher passes on to the nodes

	command     func(runner) []string        // the command that the runner starts
	environment func(runner) []facts.Setting // variables that the runner sets for the command, in addition to PYTHONPATH
	// refusesHosts is called first, even if only one host is left. refuses is called only if the
	// launcher will start.
	refusesHosts, refuses func(runner) error
	notes                 func(runner) []hostfile.Note // see runner.notes
}

// Environment says which part of the launching machine's environment reaches the ranks.
type Environment int

const (
	// EnvironmentOpen means the variables that DeepSpeed exports, plus those that the nodes and
	// MPI's process manager add.
	EnvironmentOpen Environment = iota
	// EnvironmentExported means only the variables that DeepSpeed exports.
	EnvironmentExported
	// EnvironmentWhole means the whole environment, unchanged, overridden by the exports.
	EnvironmentWhole
)

const mpirunWorkDir = "mpirun starts the ranks in {home}"

// scriptOptions lists options that become words of the script's own command.
var scriptOptions = []string{"--module", "--no_python"}

// Launchers lists the values of --launcher. The first value is the default.
//
// Source: deepspeed/launcher/runner.py, main, and multinode_runner.py, each runner class, v0.6.0 to
// 0.19.8. For launchers that start with srun in a job: open-mpi/ompi 4.1,
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

// Program returns the program that the launcher runs.
func (l Launcher) Program() string { return l.Programs[len(l.Programs)-1] }

// LauncherNames returns the values of --launcher.
func LauncherNames() []string { return launcherNames(Launchers) }

func launcherNames(launchers []Launcher) (names []string) {
	for _, l := range launchers {
		names = append(names, l.Name)
	}
	return names
}

// LauncherPrograms returns the programs of all launchers except pdsh, which has facts of its own.
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

// StartedBy returns the launcher that starts the ranks. It returns the zero value if every node is
// started by hand or by torchrun.
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

// NodesStartOthers reports whether the launch has more hosts than the launching machine starts
// itself, so that some nodes connect to other nodes.
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

// WithoutSSH returns the reason why ranks can start on a node without an ssh login, "" if they
// cannot.
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

// isIrrelevant reports whether a note does not concern this launch. Such a note is about a launcher
// that the launch does not use: its ID begins with that launcher's name. Or the note is about a
// single host, although the ranks are started by hand or by torchrun.
func (p Prediction) isIrrelevant(note hostfile.Note) bool {
	if note.ID == "single-host-runs-here" {
		return p.NoSSH || p.Torchrun()
	}
	isOf := func(l Launcher) bool { return strings.HasPrefix(note.ID, l.Name+"-") }
	return slices.ContainsFunc(Launchers, isOf) && (p.Local || !isOf(p.StartedBy()))
}
