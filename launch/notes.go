// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"slices"
	"strings"

	"preflight/hostfile"
	"preflight/internal/secret"
)

// notes returns notes about the ways in which the command does something other than it seems to do,
// as far as the command alone shows. Each message says what happens and how to avoid it.
//
// Source: deepspeed/launcher/runner.py and multinode_runner.py, v0.6.0 to 0.19.8.
func (r runner) notes() []hostfile.Note {
	notes := slices.Concat(r.commonNotes(), r.optionNotes())
	if r.isLocal() {
		return notes
	}
	if r.MasterAddr != "" && r.by.MPIDiscovery {
		notes = append(notes, note("master-addr-ignored", "--launcher %s passes no master address on; the ranks use the first address that `hostname -I` prints on rank 0 and port %d, not %s", r.launcher, DefaultMasterPort, r.MasterAddr))
	}
	if r.by.notes == nil {
		return notes
	}
	return append(notes, r.by.notes(r)...)
}

func note(name, format string, values ...any) hostfile.Note {
	return hostfile.Note{ID: name, Message: fmt.Sprintf(format, values...)}
}

func (r runner) commonNotes() []hostfile.Note {
	var notes []hostfile.Note
	if r.Autotuning != "" {
		notes = append(notes, note("autotuning", "--autotuning starts many launches, one per experiment, and preflight predicts none of them: check the command without it first"))
	}
	if nodes, _ := Lookup(r.env, "SLURM_JOB_NUM_NODES"); r.isLocal() && !r.NoSSH && r.HostsFile == "" && r.Filter.Include == "" && nodes != "" && nodes != "1" {
		notes = append(notes, note("local-in-slurm-job", "without a hostfile DeepSpeed trains on this machine alone, but the Slurm job has %s nodes: give the job's nodes with --hostfile", nodes))
	}
	if r.masterPort() < 0 || r.masterPort() > 65535 {
		notes = append(notes, note("master-port-range", "--master_port %d is not a port, so rank 0 fails: use one below 65536, like %d", r.masterPort(), DefaultMasterPort))
	}
	if r.NoSSH && r.MasterAddr == "" {
		notes = append(notes, note("no-ssh-asks-ssh", "without --master_addr DeepSpeed asks %s for its address over ssh, even with --no_ssh: give the address of the first host", r.active[0].Name))
	}
	if !slices.Equal(r.arguments, r.Arguments) {
		notes = append(notes, note("argument-split", "DeepSpeed 0.10.1 to 0.12.4 splits the script's arguments again like a shell, so the script gets %q: remove blanks, quotes and backslashes, or use a newer DeepSpeed", secret.Arguments(r.arguments)))
	}
	return notes
}

func (r runner) optionNotes() []hostfile.Note {
	if r.isLocal() {
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
	return []hostfile.Note{note("option-not-forwarded", "with --launcher %s DeepSpeed does not pass %s on, so it has no effect on the nodes: leave it out", r.launcher, strings.Join(lost, ", "))}
}

func (r runner) forwards(option string) bool {
	switch option {
	case "--launcher_args":
		return !r.dropsLauncherArgs()
	case "--enable_each_rank_log":
		return slices.Contains(r.by.forwards, option) && !r.before("0.16.2")
	}
	return slices.Contains(r.by.forwards, option)
}
