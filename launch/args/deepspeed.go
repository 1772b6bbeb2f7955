// SPDX-License-Identifier: Apache-2.0

package args

import (
	"preflight/hostfile"
	"preflight/launch"
)

// unasked is DeepSpeed's default for --num_nodes, --num_gpus, --node_rank and the numbers of
// elastic nodes.
const unasked = -1

type deepSpeedArgs struct {
	launch.Options
	hostfile    string
	nodes, gpus int
	masterPort  int
	sshPort     *int
}

// parseDeepSpeed parses the words after "deepspeed", with the options of the release. The script's
// arguments stay as typed.
func parseDeepSpeed(prog string, words []string, deepspeed string, around Surroundings) (Typed, error) {
	a := deepSpeedArgs{hostfile: hostfile.DefaultPath, nodes: unasked, gpus: unasked, masterPort: launch.DefaultMasterPort}
	a.Program, a.NodeRank, a.MinElastic, a.MaxElastic = launch.ProgramDeepSpeed, unasked, unasked, unasked
	p := argumentParser{program: launch.ProgramDeepSpeed, prog: prog, abbreviate: true, required: "user_script, user_args", checksRemainder: checksRemainder(around.Python)}
	for _, o := range a.options(deepspeed) {
		if deepspeed != anyRelease && !hostfile.Within(deepspeed, o.since, o.until) {
			p.absent = append(p.absent, o)
		} else {
			p.options = append(p.options, o)
		}
	}
	r, err := p.parse(words)
	if err != nil {
		return Typed{}, err
	}
	if err := a.ports(); err != nil {
		return Typed{}, err
	}
	if err := a.empty(r); err != nil {
		return Typed{}, err
	}
	a.Script, a.Arguments, a.HostsFile = r.script, r.arguments, a.hostfile
	a.Filter.NumNodes, a.Filter.NumGPUs = hostfile.AtMost(a.nodes), hostfile.AtMost(a.gpus)
	return Typed{Options: a.Options, Hostfile: a.hostfile, HostfileGiven: r.given["-H/--hostfile"]}, nil
}

// options returns the options of all releases in the order of DeepSpeed's add_argument calls. That
// order is the same in all releases.
//
// Source: deepspeed/launcher/runner.py, parse_args, v0.3.0 to 0.19.8.
func (a *deepSpeedArgs) options(deepspeed string) []option {
	gpus := []string{"--num_gpus", "--num_accelerators"}
	if hostfile.Before(deepspeed, "0.9.3") {
		gpus = gpus[:1]
	}
	return []option{
		{names: []string{"-h", "--help"}},
		{names: []string{"-H", "--hostfile"}, into: &a.hostfile},
		{names: []string{"-i", "--include"}, into: &a.Filter.Include},
		{names: []string{"-e", "--exclude"}, into: &a.Filter.Exclude},
		{names: []string{"--num_nodes"}, into: &a.nodes},
		{names: []string{"--min_elastic_nodes"}, into: &a.MinElastic, since: "0.7.0", until: "0.19.8"},
		{names: []string{"--max_elastic_nodes"}, into: &a.MaxElastic, since: "0.7.0", until: "0.19.8"},
		{names: gpus, into: &a.gpus},
		{names: []string{"--master_port"}, into: &a.masterPort},
		{names: []string{"--master_addr"}, into: &a.MasterAddr},
		{names: []string{"--node_rank"}, into: &a.NodeRank, since: "0.14.5"},
		{names: []string{"--launcher"}, into: &a.Launcher},
		{names: []string{"--launcher_args"}, into: &a.LauncherArgs},
		{names: []string{"--module"}, into: &a.Module, since: "0.5.10"},
		{names: []string{"--no_python"}, into: &a.NoPython, since: "0.5.10"},
		{names: []string{"--no_local_rank"}, into: &a.NoLocalRank, since: "0.5.10"},
		{names: []string{"--no_ssh"}, into: &a.NoSSH, since: "0.14.5"},
		{names: []string{"--no_ssh_check"}, into: &a.NoSSHCheck, since: "0.6.5"},
		{names: []string{"--force_multi"}, into: &a.Filter.ForceMulti, since: "0.3.16"},
		{names: []string{"--save_pid"}, into: &a.SavePID, since: "0.6.0"},
		{names: []string{"--enable_each_rank_log"}, into: &a.EachRankLog, since: "0.8.0"},
		{names: []string{"--autotuning"}, into: &a.Autotuning, choices: []string{"tune", "run"}, since: "0.5.7"},
		{names: []string{"--elastic_training"}, into: &a.Elastic, since: "0.7.0", until: "0.19.8"},
		{names: []string{"--bind_cores_to_rank"}, into: &a.BindCores, since: "0.9.0"},
		{names: []string{"--bind_core_list"}, into: &a.CoreList, since: "0.9.0"},
		{names: []string{"--ssh_port"}, into: &a.sshPort, since: "0.10.2"},
		{names: []string{"--venv_script"}, into: &a.VenvScript, since: "0.17.1"},
		{names: []string{"--log_level"}, into: &a.LogLevel, choices: []string{"debug", "info", "warning", "error", "critical"}, since: "0.17.6"},
		{names: []string{"-q", "--quiet"}, into: &a.Quiet, since: "0.17.6"},
	}
}

// ports sets the ports. DeepSpeed accepts port 0, but then the ranks do not find each other and ssh
// does not find the host.
func (a *deepSpeedArgs) ports() error {
	if a.masterPort == 0 {
		return launch.DeepSpeedRefuses("", "--master_port 0 means any free port, which the other ranks would not know: give a port, like %d", launch.DefaultMasterPort)
	}
	a.MasterPort = a.masterPort
	if a.sshPort == nil {
		return nil
	}
	if *a.sshPort == 0 {
		return launch.DeepSpeedRefuses("", "--ssh_port 0 is not a port, and ssh refuses it: leave it out, or give sshd's port")
	}
	a.SSHPort = *a.sshPort
	return nil
}

// empty refuses options with an empty value. DeepSpeed accepts most of them, but then its launcher
// or the nodes run a different command than intended.
func (a *deepSpeedArgs) empty(r *reading) error {
	if r.given["--launcher"] && a.Launcher == "" {
		return launch.DeepSpeedRefuses("NotImplementedError: Unknown launcher ", "--launcher is empty: leave it out for %s", launch.DefaultLauncher)
	}
	for _, option := range []struct{ name, value string }{
		{"--enable_each_rank_log", a.EachRankLog}, {"--bind_core_list", a.CoreList}, {"--venv_script", a.VenvScript},
	} {
		if r.given[option.name] && option.value == "" {
			return launch.DeepSpeedRefuses("", "%s is empty: leave it out, or give it a value", option.name)
		}
	}
	if r.script == "" {
		return launch.DeepSpeedRefuses("", "the script is empty: name the program to train")
	}
	return nil
}
