// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"preflight/facts"
	"preflight/hostfile"
)

// Placeholders for words of a predicted command that are only known when DeepSpeed builds the
// command.
const (
	// masterAddrPlaceholder stands for the first address that hostname -I prints on the first host.
	masterAddrPlaceholder = "$MASTER_ADDR"
	// pidPlaceholder stands for the ID of DeepSpeed's own process.
	pidPlaceholder = "$PID"
	// packagePlaceholder stands for the directory of the deepspeed package.
	packagePlaceholder = "$DEEPSPEED"
)

// runner has the state of DeepSpeed's runner when it builds the command that it starts.
type runner struct {
	Options
	active   []hostfile.Host // hosts that the filter left
	launcher string          // name of the launcher in lower case
	by       Launcher        // the launcher of that name, zero if there is none
	python   string          // sys.executable
	env      *facts.Env      // environment of the launching machine, nil if it was not seen
	words    []string        // words of --launcher_args
	// arguments holds the script's arguments as the release passes them on.
	arguments []string
	exports   []facts.Setting // quoted, in the order in which they are passed on
}

func (r runner) before(release string) bool { return hostfile.Before(r.DeepSpeed, release) }

func (r runner) within(first, end string) bool { return hostfile.Within(r.DeepSpeed, first, end) }

// isLocal reports whether launch.py is started on the launching machine instead of through a
// launcher.
func (r runner) isLocal() bool { return r.NoSSH || len(r.active) < 2 && !r.Filter.ForceMulti }

func (r runner) excluded() (names []string) {
	if r.HostsFile == "" {
		return nil
	}
	active := map[string]bool{}
	for _, host := range r.active {
		active[host.Name] = true
	}
	for _, host := range r.Hosts {
		if !active[host.Name] {
			names = append(names, host.Name)
		}
	}
	return names
}

func (r runner) command() []string {
	if r.Script == "" || r.python == "" || r.Autotuning != "" || slices.ContainsFunc(r.active, func(h hostfile.Host) bool { return h.Slots == nil }) {
		return nil
	}
	switch {
	case r.isLocal():
		return r.localCommand()
	case r.by.command == nil:
		return nil
	}
	return r.by.command(r)
}

// environment returns the variables that the runner sets for the launcher's command. PYTHONPATH is
// always one of them, because DeepSpeed sets it in the environment from which it reads the exports.
// The others are the launcher's own. For a local launch the result is empty.
func (r runner) environment() []facts.Setting {
	if r.isLocal() {
		return nil
	}
	settings := []facts.Setting{{Name: "PYTHONPATH", Value: pythonPath(r.WorkDir, r.env), Source: "deepspeed"}}
	if r.by.environment == nil {
		return settings
	}
	return append(settings, r.by.environment(r)...)
}

func (r runner) asksForAllSlots() bool { return r.before(r.by.allSlotsUntil) }

// localCommand returns the command that starts launch.py on the launching machine, for one host or,
// with --no_ssh, for the host of --node_rank.
//
// Source: deepspeed/launcher/runner.py, main, v0.6.0 to 0.19.8.
func (r runner) localCommand() []string {
	argv := []string{r.python, "-u", "-m", "deepspeed.launcher.launch", "--world_info=" + worldInfo(r.active),
		"--master_addr=" + r.masterAddr(), "--master_port=" + strconv.Itoa(r.masterPort())}
	if r.NoSSH {
		argv = append(argv, fmt.Sprintf("--node_rank=%d", r.NodeRank))
	}
	argv = append(argv, r.launchOptions(!r.before("0.8.0"))...)
	if r.BindCores {
		argv = append(argv, "--bind_cores_to_rank")
	}
	if r.CoreList != "" {
		argv = append(argv, "--bind_core_list="+r.CoreList)
	}
	if !r.before("0.17.6") {
		level := cmp.Or(r.LogLevel, "info")
		if r.Quiet {
			argv, level = append(argv, "--quiet"), "error"
		}
		argv = append(argv, "--log_level="+level)
	}
	return slices.Concat(argv, []string{r.Script}, r.arguments)
}

// launchOptions returns the options of launch.py that localCommand and pdshCommand share.
func (r runner) launchOptions(eachRankLog bool) []string {
	var options []string
	for _, option := range []struct {
		given bool
		words []string
	}{
		{r.NoPython, []string{"--no_python"}},
		{r.Module, []string{"--module"}},
		{r.NoLocalRank, []string{"--no_local_rank"}},
		{r.SavePID, []string{"--save_pid", pidPlaceholder}},
		{eachRankLog, []string{"--enable_each_rank_log=" + cmp.Or(r.EachRankLog, "None")}},
		{r.Elastic, []string{"--enable_elastic_training",
			fmt.Sprintf("--max_elastic_nodes=%d", r.MaxElastic), fmt.Sprintf("--min_elastic_nodes=%d", r.MinElastic)}},
	} {
		if option.given {
			options = append(options, option.words...)
		}
	}
	return options
}

func (r runner) masterAddr() string { return cmp.Or(r.MasterAddr, masterAddrPlaceholder) }

func (r runner) masterPort() int { return cmp.Or(r.MasterPort, DefaultMasterPort) }

// worldInfo returns the hosts and their slots in the form that launch.py gets: JSON as written by
// json.dumps, in URL-safe Base64 (runner.py, encode_world_info).
func worldInfo(hosts []hostfile.Host) string {
	entries := make([]string, len(hosts))
	for i, host := range hosts {
		entries[i] = fmt.Sprintf("%s: [%s]", jsonString(host.Name), joined(host.Slots))
	}
	return base64.URLEncoding.EncodeToString([]byte("{" + strings.Join(entries, ", ") + "}"))
}

// jsonString writes a string as Python's json does. Python's output is pure ASCII and has other
// short escapes than Go's (CPython 3.12, Modules/_json.c).
func jsonString(s string) string {
	short := map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\f': `\f`, '\b': `\b`}
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range s {
		switch {
		case short[r] != "":
			out.WriteString(short[r])
		case r >= ' ' && r <= '~':
			out.WriteRune(r)
		case r >= 0x10000:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	out.WriteByte('"')
	return out.String()
}
