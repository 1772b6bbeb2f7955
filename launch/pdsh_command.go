package launch

import (
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
)

// pdshCommand has pdsh run launch.py on every host. All that follows the options
// of pdsh is one command for the shell of each node, where %n has become its rank.
//
// Source: deepspeed/launcher/multinode_runner.py, PDSHRunner.get_cmd, v0.6.0 to
// 0.19.8.
func (r runner) pdshCommand() []string {
	argv := []string{"pdsh"}
	if !r.before("0.6.6") {
		argv = append(argv, "-S")
	}
	argv = append(argv, "-f", "1024", "-w", strings.Join(hostNames(r.active), ","))
	argv = append(argv, r.words...)
	if !r.before("0.17.1") && r.VenvScript != "" {
		argv = append(argv, "source "+r.VenvScript+r.afterVenvScript())
	}
	var exports strings.Builder
	for _, s := range r.exports {
		exports.WriteString("export " + s.Name + "=" + s.Value + "; ")
	}
	argv = append(argv, exports.String(), "cd "+r.WorkDir+";", r.python, "-u", "-m", "deepspeed.launcher.launch",
		"--world_info="+worldInfo(r.active), "--node_rank=%n", "--master_addr="+r.masterAddr(), "--master_port="+strconv.Itoa(r.masterPort()))
	argv = append(argv, r.launchOptions(!r.before("0.16.2"))...)
	argv = append(argv, r.Script)
	for _, argument := range r.arguments {
		argv = append(argv, r.pdshArgument(argument))
	}
	return argv
}

// afterVenvScript is what ends the command that reads --venv_script, forgotten at
// first.
func (r runner) afterVenvScript() string {
	if r.before("0.17.5") {
		return ""
	}
	return ";"
}

// pdshArgument is an argument of the script as it is put into the command for the
// shells of the nodes (PDSHRunner.parse_user_args): since v0.12.5 in double quotes
// when it holds a blank, before in single ones unless it begins with "-".
func (r runner) pdshArgument(argument string) string {
	switch {
	case r.before("0.12.5") && strings.HasPrefix(argument, "-"):
		return argument
	case r.before("0.12.5"):
		return "'" + argument + "'"
	case strings.Contains(argument, " "):
		return `"` + strings.ReplaceAll(argument, `"`, `\"`) + `"`
	}
	return argument
}

// pdshEnvironment is what pdsh goes by.
func (r runner) pdshEnvironment() []facts.Setting {
	settings := []facts.Setting{{Name: "PDSH_RCMD_TYPE", Value: "ssh", Source: "deepspeed"}}
	if r.SSHPort == 0 {
		return settings
	}
	before, _ := lookup(r.env, sshArgsAppend)
	blanks := " "
	switch {
	case r.before("0.11.0"):
		before = ""
	case !r.before("0.14.1"):
		blanks = strings.Repeat(" ", 13) // the indentation of a line that the source continues
	}
	return append(settings, facts.Setting{Name: sshArgsAppend, Value: before + blanks + "-p " + strconv.Itoa(r.SSHPort), Source: "deepspeed"})
}

// sshArgsAppend is what pdsh adds to the command line of its ssh.
const sshArgsAppend = "PDSH_SSH_ARGS_APPEND"

// pythonPath is PYTHONPATH once the runner has put the working directory first.
func pythonPath(workDir string, env *facts.Env) string {
	if already, set := lookup(env, "PYTHONPATH"); set {
		return workDir + ":" + already
	}
	return workDir
}

// lookup is a variable of an environment that may not have been seen.
func lookup(env *facts.Env, name string) (value string, set bool) {
	if env == nil {
		return "", false
	}
	i := slices.IndexFunc(env.Vars, func(s facts.Setting) bool { return s.Name == name })
	if i < 0 {
		return "", false
	}
	return env.Vars[i].Value, true
}

func hostNames(hosts []hostfile.Host) []string {
	var names []string
	for _, host := range hosts {
		names = append(names, host.Name)
	}
	return names
}
