// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"slices"
	"strconv"
	"strings"

	"preflight/hostfile"
)

// The commands of the MPI launchers use the whole hostfile, because DeepSpeed refuses filters with
// these launchers.
//
// Source: deepspeed/launcher/multinode_runner.py, get_cmd of each runner, v0.6.0 to 0.19.8.

func (r runner) openMPICommand() []string {
	if r.HostsFile == "" {
		return nil
	}
	argv := []string{"mpirun", "-n", r.total(), "-hostfile", r.HostsFile, "--mca", "btl", "^openib"}
	if !r.choosesInterface() {
		argv = append(argv, "--mca", "btl_tcp_if_include", "eth0")
	}
	return slices.Concat(argv, r.words, r.exported("-x"), r.scriptCommand())
}

func (r runner) exported(option string) []string {
	var words []string
	for _, s := range r.exports {
		words = append(words, option, s.Name+"="+s.Value)
	}
	return words
}

// choosesInterface reports whether --launcher_args name the interface for Open MPI. If they do,
// DeepSpeed does not add eth0 since v0.15.3.
func (r runner) choosesInterface() bool {
	if r.before("0.15.3") {
		return false
	}
	for i, word := range r.words {
		if (word == "-mca" || word == "--mca") && i+1 < len(r.words) && r.words[i+1] == "btl_tcp_if_include" {
			return true
		}
	}
	return false
}

func (r runner) mvapichCommand() []string {
	argv := []string{"mpirun", "-np", r.total(), "-ppn", r.perNode(), "--hostfile", "/tmp/deepspeed_mvapich_hostfile"}
	return slices.Concat(argv, r.words, r.exported("-env"), r.scriptCommand())
}

// mpichCommand returns the command in one of four forms, depending on the release. The forms are:
// without exports, with exports, one command per rank, and one command for all ranks that reads the
// rank from the environment.
func (r runner) mpichCommand() []string {
	counts := []string{"-n", r.total(), "-ppn", r.perNode()}
	hosts := []string{"-hosts", strings.Join(HostNames(r.Hosts), ",")}
	argv, exports := []string{"mpirun"}, r.exported("-genv")
	switch {
	case r.before("0.9.2"):
		return slices.Concat(argv, counts, r.words, r.scriptCommand())
	case r.before("0.9.3"):
		return slices.Concat(argv, counts, hosts, r.words, exports, r.scriptCommand())
	case r.before(r.by.helperSince):
		return slices.Concat(argv, r.words, exports, r.rendezvousEnv(), r.rankCommands(true))
	}
	return slices.Concat(argv, counts, r.words, exports, r.rendezvousEnv(), hosts, r.mpichHelper())
}

func (r runner) mpichHelper() []string {
	helper := []string{packagePlaceholder + "/launcher/launcher_helper.py", "--launcher", r.launcher}
	switch {
	case r.NoPython:
		helper = append(helper, "--no_python")
	case r.Module:
		helper = append(helper, "--module")
	}
	return slices.Concat(r.interpreter(), helper, []string{r.Script}, r.arguments)
}

// impiCommand returns nil if ranks are bound to cores, because the cores depend on the processors
// and memory of the launching machine.
func (r runner) impiCommand() []string {
	if r.BindCores {
		return nil
	}
	argv := slices.Concat([]string{"mpirun", "-ppn", r.perNode()}, r.words)
	for _, s := range r.exports {
		argv = append(argv, "-genv", s.Name, s.Value)
	}
	argv = append(argv, r.rendezvousEnv()...)
	if !r.before("0.11.2") {
		argv = append(argv, "-genv", "I_MPI_PIN", "0")
	}
	argv = append(argv, "-hosts", strings.Join(HostNames(r.Hosts), ","))
	return append(argv, r.rankCommands(false)...)
}

func (r runner) rendezvousEnv() []string {
	return []string{"-genv", "MASTER_ADDR", r.masterAddr(), "-genv", "MASTER_PORT", strconv.Itoa(r.masterPort()),
		"-genv", "WORLD_SIZE", r.total(), "-genv", "LOCAL_SIZE", r.perNode()}
}

func (r runner) rankCommands(named bool) []string {
	var argv []string
	rank := 0
	for _, host := range r.Hosts {
		for local := range host.Slots {
			if rank > 0 {
				argv = append(argv, ":")
			}
			argv = append(argv, "-n", "1")
			if named {
				argv = append(argv, "-host", host.Name)
			}
			argv = append(argv, "-env", "RANK", strconv.Itoa(rank), "-env", "LOCAL_RANK", strconv.Itoa(local))
			argv = append(argv, r.scriptCommand()...)
			rank++
		}
	}
	return argv
}

func (r runner) scriptCommand() []string {
	return slices.Concat(r.interpreter(), []string{r.Script}, r.arguments)
}

// interpreter returns the words before the script in the command, none with --no_python.
func (r runner) interpreter() []string {
	switch {
	case r.NoPython:
		return nil
	case r.Module:
		return []string{r.python, "-u", "-m"}
	}
	return []string{r.python, "-u"}
}

func (r runner) total() string { return strconv.Itoa(slotsOf(r.Hosts)) }

// perNode returns the number of slots of the first host. All hosts have the same number.
func (r runner) perNode() string { return strconv.Itoa(len(r.Hosts[0].Slots)) }

func slotsOf(hosts []hostfile.Host) int {
	total := 0
	for _, host := range hosts {
		total += len(host.Slots)
	}
	return total
}

func sameSlots(hosts []hostfile.Host) bool {
	return !slices.ContainsFunc(hosts, func(host hostfile.Host) bool { return len(host.Slots) != len(hosts[0].Slots) })
}

// The following functions return the variables that MPI launchers export first
// (multinode_runner.py, __init__ of OpenMPIRunner and MVAPICHRunner) and last (IMPIRunner.get_cmd).

func openMPIPresets(exporter) []string { return []string{"UCX_TLS=tcp"} }

func mvapichPresets(x exporter) []string {
	presets := []string{"MV2_SMP_USE_CMA=0", "MV2_DEBUG_SHOW_BACKTRACE=1", "MV2_SUPPORT_DL=1", "MV2_ENABLE_AFFINITY=0", "MV2_INTER_ALLGATHER_TUNING=5", "MV2_CUDA_USE_NAIVE=0"}
	if x.Accelerator == "cuda" || hostfile.Before(x.DeepSpeed, "0.8.1") {
		presets = slices.Insert(presets, 2, "MV2_USE_CUDA=1")
	}
	return presets
}

func impiOverrides(x exporter) []string {
	if hostfile.Before(x.DeepSpeed, "0.11.2") {
		return nil
	}
	return []string{"I_MPI_PIN=0"}
}

func (r runner) openMPIRefuses() error {
	if !r.within("0.16.4", "0.18.4") || r.env == nil || r.underMPI() {
		return nil
	}
	return DeepSpeedRefuses("OSError: MPI environment variables are not set. Ensure you are running the script with an MPI-compatible launcher.",
		"DeepSpeed 0.16.4 to 0.18.3 must itself be started by Open MPI before it starts Open MPI: use another release, or --launcher pdsh")
}

func (r runner) underMPI() bool {
	return r.has("OMPI_COMM_WORLD_LOCAL_RANK") && r.has("OMPI_COMM_WORLD_RANK") && r.has("OMPI_COMM_WORLD_SIZE")
}

func (r runner) openMPINotes() []hostfile.Note {
	var notes []hostfile.Note
	if r.within("0.16.4", "0.18.4") && r.env == nil {
		notes = append(notes, note("openmpi-needs-mpi", "DeepSpeed 0.16.4 to 0.18.3 refuses --launcher openmpi unless Open MPI itself started it: use another release, or --launcher pdsh"))
	}
	if !r.choosesInterface() {
		way := "name the network with --launcher_args '--mca btl_tcp_if_include NETWORK/BITS'"
		if r.before("0.15.3") {
			way = "use DeepSpeed 0.15.3 or newer and name the network with --launcher_args"
		}
		notes = append(notes, note("openmpi-eth0", "DeepSpeed makes Open MPI use eth0, even if the nodes' interfaces have other names: %s", way))
	}
	return notes
}

func (r runner) mpichNotes() []hostfile.Note {
	if !r.before(r.by.exportsSince) {
		return nil
	}
	return []hostfile.Note{note("exports-forgotten", "DeepSpeed 0.8.2 to 0.9.1 passes no variables on with --launcher mpich: set them in the nodes' own environment")}
}
