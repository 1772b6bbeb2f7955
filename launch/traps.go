package launch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"preflight/hostfile"
)

// traps are the ways in which the command does something else than it seems to,
// as far as the command alone tells. Each message says what happens and the way
// out.
//
// Source: deepspeed/launcher/runner.py and multinode_runner.py, v0.6.0 to 0.19.8.
func (r runner) traps() []hostfile.Note {
	notes := slices.Concat(r.anyTraps(), r.optionTraps())
	if r.alone() {
		return notes
	}
	if r.MasterAddr != "" && r.by.MPIDiscovery {
		notes = append(notes, trap("master-addr-ignored", "--launcher %s passes no master address on; the ranks take the first word of `hostname -I` on rank 0 and port %d, not %s", r.launcher, DefaultMasterPort, r.MasterAddr))
	}
	if r.by.traps == nil {
		return notes
	}
	return append(notes, r.by.traps(r)...)
}

func trap(name, format string, values ...any) hostfile.Note {
	return hostfile.Note{Trap: name, Message: fmt.Sprintf(format, values...)}
}

// anyTraps do not hang on the launcher.
func (r runner) anyTraps() []hostfile.Note {
	var notes []hostfile.Note
	if r.Autotuning != "" {
		notes = append(notes, trap("autotuning", "--autotuning starts many launches of its own, one an experiment, and none of them is predicted here: judge the command without it first"))
	}
	if r.masterPort() < 0 || r.masterPort() > 65535 {
		notes = append(notes, trap("master-port-range", "--master_port %d is no port, and rank 0 dies on it: take one below 65536, like %d", r.masterPort(), DefaultMasterPort))
	}
	if r.NoSSH && r.MasterAddr == "" {
		notes = append(notes, trap("no-ssh-asks-ssh", "without --master_addr DeepSpeed asks %s for its address over ssh, --no_ssh or not: name the address of the first host", r.active[0].Name))
	}
	if !slices.Equal(r.arguments, r.Arguments) {
		notes = append(notes, trap("argument-split", "DeepSpeed 0.10.1 to 0.12.4 splits the script's arguments once more as a shell would, and the script gets %q: take blanks, quotes and backslashes out, or use a newer DeepSpeed", masked(r.arguments)))
	}
	return notes
}

// optionTraps are options that go no further than this machine.
func (r runner) optionTraps() []hostfile.Note {
	if r.alone() {
		return nil
	}
	var lost []string
	for _, option := range []struct {
		name  string
		given bool
	}{
		{"--launcher_args", r.LauncherArgs != ""},
		{"--ssh_port", r.SSHPort != 0},
		{"--venv_script", r.VenvScript != ""},
		{"--module", r.Module},
		{"--no_python", r.NoPython},
		{"--save_pid", r.SavePID},
		{"--enable_each_rank_log", r.EachRankLog != "" && r.EachRankLog != "None"},
		{"--elastic_training", r.Elastic},
		{"--bind_cores_to_rank", r.BindCores},
		{"--bind_core_list", r.CoreList != ""},
		{"--quiet", r.Quiet},
		{"--log_level", r.LogLevel != "" && r.LogLevel != "info"},
	} {
		if option.given && !r.forwards(option.name) {
			lost = append(lost, option.name)
		}
	}
	if lost == nil {
		return nil
	}
	return []hostfile.Note{trap("option-not-forwarded", "with --launcher %s DeepSpeed does not hand %s on, and the nodes run as if it were not there: leave it out", r.launcher, strings.Join(lost, ", "))}
}

// forwards is whether an option goes further than the launching machine.
func (r runner) forwards(option string) bool {
	switch option {
	case "--launcher_args":
		return !r.forgetsLauncherArgs()
	case "--enable_each_rank_log":
		return slices.Contains(r.by.forwards, option) && !r.before("0.16.2")
	}
	return slices.Contains(r.by.forwards, option)
}

// pdshTraps are about pdsh itself.
func (r runner) pdshTraps() []hostfile.Note {
	notes := r.rereadTraps()
	for _, word := range r.words {
		switch {
		case strings.HasPrefix(word, "-w"), strings.HasPrefix(word, "-a"), strings.HasPrefix(word, "-A"), strings.HasPrefix(word, "-g"):
			notes = append(notes, trap("launcher-args-hosts", "%q of --launcher_args adds hosts to those of the hostfile, and their ranks are nobody's (IndexError on each): name them in the hostfile", word))
		case strings.HasPrefix(word, "-x"), strings.HasPrefix(word, "-X"):
			notes = append(notes, trap("launcher-args-hosts", "%q of --launcher_args leaves hosts out, and those behind them get ranks that are not theirs: use --exclude", word))
		case strings.HasPrefix(word, "-R"):
			notes = append(notes, trap("launcher-args-module", "%q of --launcher_args has pdsh use another module than ssh: leave it out", word))
		case strings.HasPrefix(word, "-f"):
			notes = append(notes, trap("launcher-args-fanout", "%q of --launcher_args replaces DeepSpeed's fan-out of 1024, and hosts beyond it start when others have ended, which is never: leave it out", word))
		case strings.HasPrefix(word, "-u"):
			notes = append(notes, trap("launcher-args-timeout", "%q of --launcher_args ends the training after so many seconds: leave it out", word))
		}
	}
	if r.VenvScript != "" && r.within("0.17.1", "0.17.5") {
		notes = append(notes, trap("venv-script-unended", `DeepSpeed 0.17.1 to 0.17.4 forgets the ";" behind --venv_script, so that the export that follows, of %s, is an argument of the script: write --venv_script '%s;'`, r.exports[0].Name, r.VenvScript))
	}
	if r.appendsBlindly() && r.env == nil {
		notes = append(notes, trap("ssh-port-append", "--ssh_port of DeepSpeed 0.11.0 to 0.14.0 dies where PDSH_SSH_ARGS_APPEND is not set (KeyError): export it, an empty one will do"))
	}
	return notes
}

// rereadTraps are words that pdsh and the shells of the nodes read once more.
func (r runner) rereadTraps() []hostfile.Note {
	var notes []hostfile.Note
	if !rereadSafely(r.Script) {
		notes = append(notes, trap("script-reread", "%q is read again by pdsh and the shell of every node, which split it or make another path of it: rename it without blanks and signs", r.Script))
	}
	var torn []string
	shown := masked(r.arguments)
	for i, argument := range r.arguments {
		if word := r.pdshArgument(argument); word == "" || !survives(argument, word) {
			torn = append(torn, fmt.Sprintf("%q", shown[i]))
		}
	}
	if torn != nil {
		notes = append(notes, trap("argument-reread", "%s of the script's arguments: pdsh replaces %%n, %%h, %%u and %%%%, and the shell of every node parses it once more, so that the script gets something else: quote it once more, and double each %% before n, h, u and %%", strings.Join(torn, ", ")))
	}
	if !rereadSafely(r.WorkDir) {
		notes = append(notes, trap("workdir-reread", "the command changes to %q without quotes, which the shell of every node reads as something else, and python then starts in the home directory: launch from a directory without blanks and signs in its path", r.WorkDir))
	}
	if !rereadSafely(r.python) {
		notes = append(notes, trap("interpreter-reread", "the command calls %q without quotes, which the shell of every node reads as something else: use a python without blanks and signs in its path", r.python))
	}
	return notes
}

// rereadSafely is whether a word that nobody quotes arrives as it is; one that is
// not known does.
func rereadSafely(word string) bool { return word == "" || survives(word, word) }

func (r runner) openMPITraps() []hostfile.Note {
	var notes []hostfile.Note
	if r.within("0.16.4", "0.18.4") && r.env == nil {
		notes = append(notes, trap("openmpi-needs-mpi", "DeepSpeed 0.16.4 to 0.18.3 refuses --launcher openmpi unless Open MPI itself has started it: use another release, or --launcher pdsh"))
	}
	if !r.choosesInterface() {
		way := "name the network with --launcher_args '--mca btl_tcp_if_include NETWORK/BITS'"
		if r.before("0.15.3") {
			way = "use DeepSpeed 0.15.3 or newer and name the network with --launcher_args"
		}
		notes = append(notes, trap("openmpi-eth0", "DeepSpeed tells Open MPI to use eth0, whatever the nodes call their interfaces: %s", way))
	}
	return notes
}

func (r runner) mpichTraps() []hostfile.Note {
	if !r.before(r.by.exportsSince) {
		return nil
	}
	return []hostfile.Note{trap("exports-forgotten", "DeepSpeed 0.8.2 to 0.9.1 hands no variables on with --launcher mpich: set them in the nodes' own environment")}
}

func (r runner) slurmTraps() []hostfile.Note {
	filtered := r.Filter.Include != "" || r.Filter.Exclude != ""
	switch {
	case r.asksForAllSlots() && filtered:
		return []hostfile.Note{trap("slurm-filter", "DeepSpeed before 0.19.7 hands the filter %q to srun as it is, which has no --include and knows no slots, and asks for all slots of the hostfile: write a hostfile with the wanted hosts", cmp.Or(r.Filter.Include, r.Filter.Exclude))}
	case r.asksForAllSlots() && r.Filter.Given():
		return []hostfile.Note{trap("slurm-filter", "DeepSpeed before 0.19.7 asks srun for all %s slots of the hostfile, whatever --num_nodes and --num_gpus leave of it: write a hostfile with the wanted hosts and slots", r.total())}
	case !filtered:
		return []hostfile.Note{trap("hostfile-ignored", "--launcher slurm takes only the total of slots from the hostfile; which nodes run is srun's choice")}
	}
	return nil
}
