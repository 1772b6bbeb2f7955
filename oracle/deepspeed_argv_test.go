// SPDX-License-Identifier: Apache-2.0

//go:build oracle

package oracle_test

import "strings"

// flags and valued contain the options of all releases. No release has all of these options.
var (
	flags = []string{"module", "no_python", "no_local_rank", "no_ssh_check", "no_ssh", "force_multi", "force_multi", "save_pid", "bind_cores_to_rank", "quiet",
		"elastic_training"}
	valued = map[string][]string{
		"include":              {"w1", "w1@w2", "w1:0"},
		"exclude":              {"w1", "w1:0"},
		"num_nodes":            {"1", "2"},
		"num_gpus":             {"1", "2"},
		"num_accelerators":     {"1", "2"},
		"min_elastic_nodes":    {"1", "2", "-1", "x"},
		"max_elastic_nodes":    {"1", "2", "-1", "x"},
		"master_port":          {"29501", "0", "-1", "70000", "x", "", " 29501", "2_9"},
		"master_addr":          {"10.0.0.1", "w1"},
		"node_rank":            {"0", "1", "2", "-1", "x"},
		"launcher_args":        {"", "-a", "--mca btl_tcp_if_include eth1", "-mca btl_tcp_if_include eth1", "'a b' c", `a\ b "c d"`, "'", `"`, "\\", "# x", "é ö", "a\u00a0b", "''"},
		"enable_each_rank_log": {"logs", "None", ""},
		"autotuning":           {"tune", "run", "walk", ""},
		"bind_core_list":       {"0-3", "0,2", ""},
		"ssh_port":             {"22", "2222", "0", "-1", "x", ""},
		"venv_script":          {"/opt/venv/bin/activate", "a b", ""},
		"log_level":            {"info", "debug", "error", "INFO", "loud", ""},
		"hostfile":             {"hostfile", "gone", "."},
		"launcher":             {"pdsh", "slurm"},
	}
	valuedNames = []string{"include", "exclude", "num_nodes", "num_gpus", "num_accelerators", "min_elastic_nodes", "max_elastic_nodes", "master_port", "master_addr",
		"node_rank", "launcher_args", "launcher_args", "enable_each_rank_log", "autotuning", "bind_core_list", "ssh_port", "ssh_port", "venv_script", "log_level",
		"hostfile", "launcher"}
)

// option returns a random option, with a value if the option takes one.
func (d dealer) option() []string {
	if d.once(2) {
		return d.spelled(pick(d.Rand, flags...))
	}
	name := pick(d.Rand, valuedNames...)
	return d.spelled(name, pick(d.Rand, valued[name]...))
}

// spelled returns an option in one of the spellings that argparse accepts, or in a similar
// spelling.
func (d dealer) spelled(name string, value ...string) []string {
	if short := map[string]string{"include": "-i", "exclude": "-e", "hostfile": "-H", "quiet": "-q"}[name]; short != "" && d.once(3) {
		if len(value) > 0 && d.once(3) {
			return []string{short + pick(d.Rand, "", "=") + value[0]}
		}
		return append([]string{short}, value...)
	}
	if d.once(20) {
		name = name[:1+d.IntN(len(name))]
	}
	if d.once(50) {
		name = strings.ReplaceAll(name, "_", "-")
	}
	if len(value) > 0 && d.once(3) {
		return []string{"--" + name + "=" + value[0]}
	}
	if d.once(100) {
		return []string{"--" + name} // the option is a flag, or its value is missing
	}
	return append([]string{"--" + name}, value...)
}

// garbage returns a word that is not an option, a wrong option, or nothing.
func (d dealer) garbage() string {
	return pick(d.Rand, "--", "-", "-h", "--help", "--nope", "--nope=1", "-x", "-Hq", "-qH", "-qi", "-iw1", "-i=", "-1", "-1.5", "-e", "---", "--=", "--=x", "-=",
		"--module=1", "--no", "--no_", "--n", "--num", "--m", "--master", "--quiet=", "-q1", "-qq", "- x", "--a b", "--hostfile ", "-é", "--é", "--version", "-v", "",
		"-.5", "-1e3", "-3", "-1_0", "- 1", "-0x1", "--num_gpus 2", "-H hostfile", "-i\u00a0", "--save_pid --module", "-hx", "--he")
}

// argument returns an argument of the script.
func (d dealer) argument() string {
	return pick(d.Rand, "--deepspeed", "--deepspeed_config", "ds.json", "--lr=1e-4", "--lr", "1e-4", "-1", "--", "-", "a b", "--name=a b", "$HOME", "a;b", `say "hi"`, `"q"`,
		"it's", "'q'", "*", "%n", "100%", "é", "", " ", "a\tb", "--include", "--num_gpus", "2", "-H", "--local_rank=0", `\`, "--help", "-h", "#", "# x", "a'b c", "\u00a0", "a\nb")
}
