// SPDX-License-Identifier: Apache-2.0

// Package launcher checks how the ranks will be started. It checks the launcher's programs and
// arguments, the exported environment, and the working directory, script and files that the nodes
// need.
//
// It checks only the launcher that the launch will use.
package launcher

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
	"preflight/launch/nccl"
)

var Ready = checks.Check{
	ID:       "launcher-ready",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionLauncher},
	OnHead:   true,
	Volatile: true,
	Run:      judgeLauncher,
}

func judgeLauncher(view checks.View) []checks.Finding {
	if view.Launch.Torchrun() {
		if findings := programFindings(view); findings != nil {
			return findings
		}
		if view.Launch.Srun {
			return srunFindings(view)
		}
		return checks.Skipped("you start torchrun on every node: there is no launcher")
	}
	findings := append(programFindings(view), sshClient(view)...)
	switch by := view.Launch.StartedBy(); {
	case view.Launch.NoSSH && findings == nil:
		return checks.Skipped("--no_ssh: you start every node by hand, without a launcher")
	case view.Launch.Local && findings == nil:
		return checks.Skipped("one active host: DeepSpeed starts the ranks itself, without a launcher")
	case view.Launch.NoSSH, view.Launch.Local:
	case by.PDSH:
		findings = append(findings, pdshFindings(view, view.Head.Launcher.PDSH)...)
	case by.Name != "":
		findings = append(findings, backendFindings(view, by)...)
	default:
		findings = append(findings, checks.Finding{
			Summary:  fmt.Sprintf("DeepSpeed has no launcher %q", view.Launch.Launcher),
			Want:     "one of " + strings.Join(launch.LauncherNames(), ", "),
			WouldSee: "NotImplementedError: Unknown launcher " + view.Launch.Launcher,
			Remedy:   []fix.Command{fix.Here("deepspeed --launcher=%s …", fix.Name(launch.DefaultLauncher))},
		})
	}
	elsewhere := view.Launch.Script == "" && view.Head.Launcher.DeepSpeed == ""
	for i, f := range findings {
		if elsewhere && f.Nodes == nil && f.Verdict != checks.Warn {
			findings[i].Summary += " (no deepspeed here either: run preflight where you launch, or add --skip launcher-ready)"
		}
	}
	return findings
}

// sshClient reports a missing ssh client. If there is a hostfile, DeepSpeed connects to its first
// host over ssh, whatever launcher it uses. Without a hostfile, DeepSpeed connects to no host.
func sshClient(view checks.View) []checks.Finding {
	noHostfile := view.Launch.Local && len(view.Launch.Hosts) == 1 && view.Launch.Hosts[0].Line == 0
	byHand := view.Launch.NoSSH && view.Launch.MasterAddr != ""
	if view.Head.Launcher.SSHPath != "" || noHostfile || byHand {
		return nil
	}
	return []checks.Finding{{
		Summary:  "the launching machine has no ssh client",
		WouldSee: "FileNotFoundError: [Errno 2] No such file or directory: 'ssh'",
		Remedy:   fix.Install(fix.Here, remedy.SystemOf(view.Head), "openssh-client", "openssh-clients"),
	}}
}

// programFindings checks whether the program of the command exists and starts on the launching
// machine. If preflight was given no command, the user may launch from another machine.
func programFindings(view checks.View) []checks.Finding {
	p, python := view.Launch, view.Head.Python
	if p.Script == "" || typedOnNodes(view) {
		return nil
	}
	if view.Head.Launcher.DeepSpeed == "" {
		typed, distribution := p.Typed()
		return []checks.Finding{{
			Summary: fmt.Sprintf("%s is not in PATH of the launching machine", typed), Want: "the active environment has it",
			WouldSee: fmt.Sprintf("bash: %s: command not found", typed), Remedy: []fix.Command{fix.Here("source VENV/bin/activate   # the environment that has %s", fix.Text(typed)).As(fix.Or), fix.Here("pip install %s   # if no environment has it", fix.Package(distribution)).As(fix.Or)},
		}}
	}
	if f, isOther := otherInterpreter(view); isOther {
		return []checks.Finding{f}
	}
	if python != nil && python.Found && python.Problem != "" {
		return []checks.Finding{{
			Nodes: []string{view.Head.Name}, Summary: python.Path + ", the interpreter of " + p.Program + ", does not work", Got: python.Problem,
			WouldSee: python.Problem, Remedy: []fix.Command{fix.Here("%s -V", fix.Path(python.Path)).As(fix.Look), fix.Here("env | grep ^PYTHON").As(fix.Look)},
		}}
	}
	if python == nil || !python.Found || len(python.Packages) == 0 {
		return nil
	}
	lacks := slices.DeleteFunc(p.TypedImports(), func(name string) bool { return python.Packages[name] != "" })
	if len(lacks) == 0 {
		return nil
	}
	return []checks.Finding{{
		Summary: fmt.Sprintf("the interpreter of the launch lacks %s on the launching machine", strings.Join(lacks, ", ")),
		Got:     python.Executable, WouldSee: fmt.Sprintf("ModuleNotFoundError: No module named '%s'", lacks[0]),
		Remedy: []fix.Command{fix.Here("%s -m pip install %s", fix.Path(python.Executable), fix.List[fix.Package](" ", lacks))},
	}}
}

// typedOnNodes reports whether the user types a torchrun command only on the nodes, because the
// launching machine is not one of them. Other checks report a node without the program.
func typedOnNodes(view checks.View) bool {
	_, isNode := ranks.HeadNode(view)
	return view.Launch.Torchrun() && !isNode
}

// otherInterpreter returns a finding if --python is not the interpreter of the program in the
// command. preflight then checked packages that the ranks will not import. With PYTHON_EXEC,
// torchrun itself starts another interpreter.
func otherInterpreter(view checks.View) (f checks.Finding, isOther bool) {
	its, named := view.Head.Launcher.Interpreter, view.Launch.Interpreter
	_, startsAnother := launch.Lookup(view.Head.Env, "PYTHON_EXEC")
	if view.Launch.InterpreterFrom != launch.FromFlag || its == "" || directory(its) == directory(named) || startsAnother {
		return f, false
	}
	return checks.UnknownFor(view.Head, fmt.Sprintf(
		"%s uses %s, but --python makes preflight check %s: omit --python, or activate the right environment", view.Launch.Program, its, named)), true
}

// backendFindings checks the programs that DeepSpeed looks for, and the programs that it then runs.
func backendFindings(view checks.View, by launch.Launcher) []checks.Finding {
	for _, program := range by.Programs {
		if view.Head.Launcher.Backends[program] == "" { // the other programs belong to the same package, so one finding is enough
			return []checks.Finding{{
				Summary:  fmt.Sprintf("launcher %s needs %s in PATH of the launching machine", by.Name, program),
				Want:     "its environment module is loaded, or its directory is in PATH",
				WouldSee: fmt.Sprintf("RuntimeError: launcher '%s' not installed.", by.Name),
				Remedy:   []fix.Command{fix.Here("command -v %s", fix.Name(program)).As(fix.Look), fix.Here("deepspeed --launcher=pdsh …   # needs only ssh").As(fix.Or)},
			}}
		}
	}
	switch {
	case by.Allocation != "":
		return append(outsideAllocation(view, by), fewCPUs(view, by)...)
	case by.Program() == "mpirun":
		return append(otherMPI(view, by), daemons(view)...)
	}
	return nil
}

// otherMPI fails an mpirun that does not accept DeepSpeed's options. It warns about an mpirun that
// may belong to another installation. DeepSpeed itself checks neither.
func otherMPI(view checks.View, by launch.Launcher) []checks.Finding {
	programs, mpirun := view.Head.Launcher.Backends, view.Head.Launcher.MPIRun
	asked, path := by.Programs[0], programs["mpirun"]
	f := checks.Finding{Got: path, Remedy: []fix.Command{fix.Here("%s --version", fix.Path(path)).As(fix.Look), fix.Here("deepspeed --launcher=pdsh …   # needs only ssh").As(fix.Or)}}
	switch {
	case mpirun == nil:
		return []checks.Finding{checks.UnknownFor(view.Head, "preflight did not ask which MPI "+path+" belongs to")}
	case mpirun.Options != "" && mpirun.Options != by.MPIRun:
		f.Summary = fmt.Sprintf("launcher %[2]s passes options of %[3]s, but mpirun is %[1]s", mpirun.Version, by.Name, by.MPIRun)
		f.Want = "an mpirun that takes the options of " + by.MPIRun + ", first in PATH"
		if by.MPIRun == facts.OptionsHydra {
			f.Want += " (of MPICH, MVAPICH or Intel MPI)"
		}
		f.Remedy = append(otherMPIRun(by), fix.Here("mpirun --version   # afterwards: which MPI is it?").As(fix.Look))
		f.WouldSee = refusesOptions[mpirun.Options]
	case mpirun.Options == "":
		f.Verdict = checks.Warn
		f.Summary = fmt.Sprintf("mpirun may not take the options of %s, which launcher %s passes", by.MPIRun, by.Name)
		f.Got += ", " + cmp.Or(mpirun.Version, "of an unknown version")
		f.WouldSee = "an mpirun that refuses DeepSpeed's options"
	case directory(programs[asked]) != directory(path):
		f.Verdict = checks.Warn
		f.Summary = fmt.Sprintf("mpirun is in another directory than %s: another installation?", asked)
		f.Want = directory(programs[asked]) + "mpirun"
		f.WouldSee = "ranks that each believe to be the only one, because mpirun and libraries are of different MPIs"
	default:
		return nil
	}
	return []checks.Finding{f}
}

// refusesOptions maps each kind of mpirun to its error for the options that DeepSpeed passes to the
// other kind. The errors were seen with Open MPI 4.1.4, MPICH 4.0.2 and Intel MPI 2021.18.
var refusesOptions = map[string]string{
	facts.OptionsOpenMPI: `mpirun: Error: unknown option "-ppn"`,
	facts.OptionsHydra:   "[mpiexec@HOST] HYDU_process_mfile_token (utils/args/args.c:295): token slots not supported at this time",
}

// otherMPIRun returns the commands that find another mpirun, or that use a launcher whose options
// fit the present mpirun.
func otherMPIRun(by launch.Launcher) (commands []fix.Command) {
	commands = append(commands, fix.Here("module avail mpi; update-alternatives --list mpirun   # other installations").As(fix.Look))
	for _, other := range launch.Launchers {
		if other.MPIRun != "" && other.MPIRun != by.MPIRun && other.Programs[0] != "mpiname" {
			commands = append(commands, fix.Here("deepspeed --launcher=%s …", fix.Name(other.Name)))
			break
		}
	}
	return commands
}

func directory(path string) string { return path[:strings.LastIndexByte(path, '/')+1] }

// hostfileOfJob writes a hostfile with the nodes of a Slurm job.
var hostfileOfJob = fix.Here(`scontrol show hostnames "$SLURM_JOB_NODELIST" | sed 's/$/ slots=8/' > hostfile.slurm   # with the slots of your nodes; then launch with --hostfile hostfile.slurm`)

// outsideAllocation warns about hosts that are not in the Slurm allocation of the shell. srun will
// not start on these hosts.
func outsideAllocation(view checks.View, by launch.Launcher) []checks.Finding {
	allocated := by.Allocated(view.Head.Env)
	if allocated == nil {
		return nil
	}
	var outside []string
	for _, host := range view.Launch.Hosts {
		if !slices.ContainsFunc(allocated, func(node string) bool { return launch.IsNode(node, host) }) {
			outside = append(outside, host.Name)
		}
	}
	if outside == nil {
		return nil
	}
	return []checks.Finding{{
		Verdict: checks.Warn, Nodes: outside,
		Summary:  "is not in the Slurm allocation of this shell",
		Got:      by.Allocation + "=" + hostfile.Fold(allocated),
		Remedy:   []fix.Command{hostfileOfJob},
		WouldSee: "srun: error: Unable to create step for job …: Requested node configuration is not available",
	}}
}

// fewCPUs returns the finding for a Slurm job with fewer CPUs than ranks, such as a job from
// `salloc --nodes=4 --gpus-per-node=8` without --ntasks-per-node. srun gives each task one CPU
// unless it is told to share.
//
// Source: srun(1), 22.05, --overcommit; tried with such jobs.
func fewCPUs(view checks.View, by launch.Launcher) []checks.Finding {
	nodes, _ := launch.Lookup(view.Head.Env, by.Allocation)
	given, _ := launch.Lookup(view.Head.Env, "SLURM_JOB_CPUS_PER_NODE")
	job, err := hostfile.FromSlurm(nodes, given)
	shares := func(word string) bool { return word == "-O" || word == "--overcommit" }
	if err != nil || given == "" || slices.ContainsFunc(view.Launch.LauncherArgs, shares) {
		return nil
	}
	cpus, most := 0, 0
	for _, node := range job {
		cpus += len(node.Slots)
	}
	for _, host := range view.Launch.Hosts {
		most = max(most, len(host.Slots))
	}
	if cpus >= view.Launch.WorldSize() {
		return nil
	}
	return []checks.Finding{{
		Nodes:    []string{view.Head.Name},
		Summary:  "the Slurm job of this shell has fewer CPUs than the launch has ranks",
		Got:      "SLURM_JOB_CPUS_PER_NODE=" + given,
		Want:     fmt.Sprintf("%d, one for each rank", view.Launch.WorldSize()),
		Remedy:   []fix.Command{fix.Here("salloc --ntasks-per-node=%s …   # one task for each slot of a node", fix.Number(most))},
		WouldSee: "srun: error: Unable to create step for job …: More processors requested than permitted",
	}}
}

// openMPIInterface checks the interface eth0, which DeepSpeed passes to Open MPI unless
// --launcher_args names another interface. Without eth0, ranks that use TCP fail. On nodes with an
// RDMA adapter or with another transport, the finding is only a warning, because UCX and libfabric
// ignore that name.
func openMPIInterface(view checks.View, note hostfile.Note) []checks.Finding {
	var findings []checks.Finding
	for _, node := range view.Nodes {
		verdict, wouldSee := checks.Fail, "WARNING: An invalid value was given for btl_tcp_if_include. … At least one pair of MPI processes are unable to reach each other for MPI communications."
		if node.IB == nil || len(node.IB.Devices) > 0 || view.Launch.ChoosesTransport(view.Head) {
			verdict, wouldSee = checks.Warn, "WARNING: An invalid value was given for btl_tcp_if_include. … Value: eth0 Message: Unknown interface name"
		}
		switch {
		case !node.Reached:
		case node.Net == nil:
			findings = append(findings, checks.UnknownFor(node, "preflight did not see its interfaces, and DeepSpeed makes Open MPI use eth0"))
		case !slices.ContainsFunc(node.Net.Interfaces, func(i facts.Interface) bool { return i.Name == "eth0" && i.Up }):
			findings = append(findings, checks.Finding{
				Verdict:  verdict,
				Nodes:    []string{node.Name},
				Summary:  "DeepSpeed makes Open MPI use eth0, but no such interface is up",
				Got:      "--mca btl_tcp_if_include eth0",
				Want:     "an interface of the network between the nodes, or that network",
				Remedy:   []fix.Command{fix.Here("ssh {node} ip -br address").As(fix.Look), fix.Here("deepspeed --launcher_args '--mca btl_tcp_if_include %s' …", fix.Name(peerNetwork(node)))},
				WouldSee: wouldSee,
			})
		}
	}
	return findings
}

// lackMPINetwork fails for nodes whose configuration of Open MPI names no network that they have.
func lackMPINetwork(view checks.View) (findings []checks.Finding) {
	for _, node := range view.Nodes {
		setting, lacks := view.Launch.LacksMPINetwork(view.Head, node)
		if !lacks {
			continue
		}
		findings = append(findings, checks.Finding{
			Verdict:  checks.Fail,
			Nodes:    []string{node.Name},
			Summary:  fmt.Sprintf("Open MPI's %s names no network of the node", setting.Name),
			Got:      fmt.Sprintf("%s = %s in %s", setting.Name, setting.Value, setting.Source),
			Want:     "an interface or network that the node has, or no such line",
			Remedy:   []fix.Command{fix.On("ip -br addr").As(fix.Look), fix.On("sudo sed -i '/^ *%s *=/d' %s", fix.Variable(setting.Name), fix.Path(setting.Source))},
			WouldSee: "None of the TCP networks specified to be included for out-of-band communications could be found",
		})
	}
	return findings
}

// peerNetwork returns the network that leads to the peers. It has the form that Open MPI accepts in
// place of an interface.
func peerNetwork(node *facts.Node) string {
	if network, known := names.NetworkOf(node, nccl.PeerAddress(node).Address); known {
		return network.String()
	}
	return "NETWORK/BITS"
}

// daemons checks the program that mpirun starts on every node. If the program is missing, Open MPI
// ends the launch, and Hydra waits for the program.
func daemons(view checks.View) (findings []checks.Finding) {
	daemon := view.Launch.Daemon(view.Head)
	if daemon == "" {
		return nil
	}
	for _, node := range otherNodes(view) {
		switch {
		case node.Files == nil || node.Files.Daemon == nil || node.Files.Daemon.Asked != daemon:
			findings = append(findings, checks.UnknownFor(node, "preflight did not look for "+daemon+", which mpirun starts on the node"))
		case node.Files.Daemon.Path == "":
			findings = append(findings, lacksDaemon(view, node, daemon))
		case node.Files.Daemon.Unloadable != "":
			f := lacksDaemon(view, node, daemon)
			f.Summary = fmt.Sprintf("%s, which mpirun starts on the node, cannot be loaded", path.Base(daemon))
			f.Want = "the same MPI as on the launching machine, with its libraries"
			f.Got, f.WouldSee = node.Files.Daemon.Unloadable, fmt.Sprintf("%s: error while loading shared libraries: %s", daemon, node.Files.Daemon.Unloadable)
			f.Remedy = []fix.Command{fix.On("ldd %s | grep 'not found'", fix.Path(node.Files.Daemon.Path)).As(fix.Look), fix.On("env | grep ^LD_").As(fix.Look)}
			findings = append(findings, f)
		case path.Base(daemon) == "orted" && node.Net != nil && slices.ContainsFunc(node.Net.Interfaces, isLoopbackDown):
			findings = append(findings, checks.Finding{
				Nodes: []string{node.Name}, Summary: "the loopback interface is down, which ranks need to reach orted",
				Got: "lo is down", Want: "lo up", WouldSee: "a hang: the ranks of the node never finish MPI_Init",
				Remedy: []fix.Command{fix.On("sudo ip link set lo up")},
			})
		}
	}
	return findings
}

func isLoopbackDown(i facts.Interface) bool { return i.Loopback && !i.Up }

func lacksDaemon(view checks.View, node *facts.Node, daemon string) checks.Finding {
	f := checks.Finding{
		Nodes: []string{node.Name}, Summary: fmt.Sprintf("%s, which mpirun starts on the node, is missing", daemon),
		Want: "the same MPI at the same path as on the launching machine", WouldSee: fmt.Sprintf("a hang, after: bash: line 1: %s: No such file or directory", daemon),
		Remedy: []fix.Command{fix.On("ls -l %s", fix.Path(path.Dir(daemon))).As(fix.Look)},
	}
	packages := fix.Install(fix.On, remedy.SystemOf(node), "mpich", "mpich")
	if path.Base(daemon) == "orted" {
		f.WouldSee = "ORTE was unable to reliably start one or more daemons."
		packages = fix.Install(fix.On, remedy.SystemOf(node), "openmpi-bin", "openmpi")
	}
	switch {
	case daemon == "orted":
		f.Summary = "orted, which mpirun starts on the node, is not in PATH of ssh commands"
		f.Want = "the same Open MPI as on the launching machine, with its bin directory in that PATH"
		f.Remedy = append([]fix.Command{fix.On("ls /opt/*/bin/orted /usr/local/bin/orted   # add its directory to PATH at the top of ~/.bashrc, before the test for interactive shells").As(fix.Look),
			fix.Here("deepspeed --launcher_args '--prefix DIR' …   # if orted is DIR/bin/orted on every node").As(fix.Or)}, packages...)
	case path.Dir(daemon) == "/usr/bin":
		f.Remedy = packages
	}
	return f
}

// otherNodes returns the reached nodes without the launching machine.
func otherNodes(view checks.View) (others []*facts.Node) {
	here, _ := ranks.HeadNode(view)
	for _, node := range view.Nodes {
		if node.Reached && (here == nil || node.Name != here.Name) {
			others = append(others, node)
		}
	}
	return others
}
