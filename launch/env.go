package launch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"preflight/facts"
	"preflight/hostfile"
)

const (
	// wholeEnvironment is how everything else reaches the nodes under
	// --launcher slurm, and as it is (multinode_runner.py, SlurmRunner).
	wholeEnvironment = "srun --export=ALL"
	// systemConf is the file NCCL reads last, whatever NCCL_CONF_FILE says.
	systemConf = "/etc/nccl.conf"
)

// Exporter is what decides which variables reach the nodes, and how.
type Exporter struct {
	Launcher    string // pdsh, openmpi, …
	Accelerator string // cuda or cpu
	WorkDir     string
	DeepSpeed   string // version, "" for the newest
}

// exportedPrefixes pick variables of the launching machine by how their names
// begin. Those of Microsoft's Nebula service are left out: facts carry none of
// them, and some are credentials. NCCL belongs to cuda; before DeepSpeed
// v0.12.6 it was exported for every accelerator.
//
// Source: deepspeed/launcher/runner.py, EXPORT_ENVS, and
// accelerator/*_accelerator.py, export_envs, 0.19.6 of development.
var exportedPrefixes = []string{"MLFLOW", "PYTHON", "MV2", "UCX"}

// excludedOnAISC are not exported where AISC_JOB_NAME is set, because such
// nodes have values of their own (runner.py, EXCLUDE_ENVS).
var excludedOnAISC = []string{"NCCL_IB_HCA", "UCX_NET_DEVICES"}

// Settings are the variables that every rank is given, sorted by name, with
// the value that arrives: those of the launcher itself, of the launching
// machine (head may be nil), PYTHONPATH, and the files in order, each
// overriding what came before. Files export any name.
//
// The notes are values that the way changes: what a shell or pdsh reads in
// them, and the quotes that launchers without a shell pass on.
//
// Source: runner.py, main, and multinode_runner.py, add_export.
func (x Exporter) Settings(head *facts.Env, files []facts.EnvFile) ([]facts.Setting, []hostfile.Note) {
	all := map[string]facts.Setting{}
	set := func(s facts.Setting) { all[s.Name] = s }
	for _, s := range x.ownSettings() {
		set(s)
	}
	var vars []facts.Setting
	if head != nil {
		vars = head.Vars
	}
	pythonPath := x.WorkDir
	aisc := slices.ContainsFunc(vars, func(s facts.Setting) bool { return s.Name == "AISC_JOB_NAME" })
	for _, s := range vars {
		if s.Name == "PYTHONPATH" {
			pythonPath += ":" + s.Value
		}
		switch {
		case x.exports(s.Name) && !(aisc && slices.Contains(excludedOnAISC, s.Name)):
			set(facts.Setting{Name: s.Name, Value: s.Value, Source: "environment"})
		case x.Launcher == "slurm":
			set(facts.Setting{Name: s.Name, Value: s.Value, Source: wholeEnvironment})
		}
	}
	set(facts.Setting{Name: "PYTHONPATH", Value: pythonPath, Source: "deepspeed"})
	for _, file := range files {
		settings, _ := ParseEnvFile(file)
		for _, s := range settings {
			set(s)
		}
	}
	return x.sent(all)
}

func (x Exporter) exports(name string) bool {
	begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	return slices.ContainsFunc(exportedPrefixes, begins) ||
		begins("NCCL") && (x.Accelerator == "cuda" || Before(x.DeepSpeed, "0.12.6"))
}

// ownSettings are what a launcher adds by itself (multinode_runner.py,
// __init__ of OpenMPIRunner and MVAPICHRunner; get_cmd of IMPIRunner).
func (x Exporter) ownSettings() []facts.Setting {
	var pairs [][2]string
	switch x.Launcher {
	case "openmpi":
		pairs = [][2]string{{"UCX_TLS", "tcp"}}
	case "impi":
		pairs = [][2]string{{"I_MPI_PIN", "0"}}
	case "mvapich":
		pairs = [][2]string{{"MV2_SMP_USE_CMA", "0"}, {"MV2_DEBUG_SHOW_BACKTRACE", "1"}, {"MV2_SUPPORT_DL", "1"},
			{"MV2_ENABLE_AFFINITY", "0"}, {"MV2_INTER_ALLGATHER_TUNING", "5"}, {"MV2_CUDA_USE_NAIVE", "0"}}
		if x.Accelerator == "cuda" {
			pairs = append(pairs, [2]string{"MV2_USE_CUDA", "1"})
		}
	}
	var settings []facts.Setting
	for _, pair := range pairs {
		settings = append(settings, facts.Setting{Name: pair[0], Value: pair[1], Source: "launcher " + x.Launcher})
	}
	return settings
}

// sent turns values into what arrives and notes what does not arrive whole.
func (x Exporter) sent(all map[string]facts.Setting) ([]facts.Setting, []hostfile.Note) {
	var settings []facts.Setting
	var notes []hostfile.Note
	for _, s := range all {
		if s.Source == wholeEnvironment {
			settings = append(settings, s)
			continue
		}
		s.Value = strings.TrimSpace(s.Value)
		quoted := x.quotes(s.Value)
		switch {
		case x.Launcher == "pdsh" && reread(s.Value, quoted):
			notes = append(notes, hostfile.Note{Trap: "export-reread", Message: fmt.Sprintf(
				"%s=%s (%s) is read again by pdsh and the shell on every node, which replace %%h, %%u, %%n, $ and ` and drop quotes: the ranks see another value; take those characters out", s.Name, s.Value, s.Source)})
		case x.Launcher != "pdsh" && quoted:
			notes = append(notes, hostfile.Note{Trap: "export-keeps-quotes", Message: fmt.Sprintf(
				`%s=%s (%s) arrives as "%[2]s" with the quotes in it, because DeepSpeed quotes for a shell and --launcher %[4]s uses none: set it in the nodes' own environment or /etc/nccl.conf`, s.Name, s.Value, s.Source, x.Launcher)})
			s.Value = `"` + s.Value + `"`
		}
		settings = append(settings, s)
	}
	slices.SortFunc(settings, func(a, b facts.Setting) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(notes, func(a, b hostfile.Note) int { return cmp.Compare(a.Message, b.Message) })
	return settings, notes
}

// quotes is whether DeepSpeed wraps a value in double quotes: since v0.16.5
// when it holds anything but word characters and @%+=:,./-, from v0.15.2 on
// always, and never before (multinode_runner.py, add_export).
func (x Exporter) quotes(value string) bool {
	if Before(x.DeepSpeed, "0.15.2") {
		return false
	}
	if Before(x.DeepSpeed, "0.16.5") {
		return true
	}
	return strings.ContainsFunc(value, func(r rune) bool {
		return !(unicode.IsLetter(r) || unicode.IsNumber(r) || strings.ContainsRune("_@%+=:,./-", r))
	})
}

// reread is whether pdsh or the remote shell makes something else of a value.
// Inside the quotes four characters stay live; without them a blank or an
// operator ends the value.
func reread(value string, quoted bool) bool {
	live := "$`\"\\"
	if !quoted {
		live += " \t;&|<>()'*?[]{}!#~"
	}
	if strings.ContainsAny(value, live) {
		return true
	}
	return slices.ContainsFunc([]string{"%h", "%u", "%n", "%%"}, func(word string) bool { return strings.Contains(value, word) })
}

// ParseEnvFile reads a .deepspeed_env as DeepSpeed does: every line is
// NAME=VALUE, split at the first "=", both sides stripped, and there are no
// comments and no blank lines. The problems are lines that end the launch or
// do something else than they seem to; the settings are all that can be read.
//
// Source: runner.py, main, v0.6.0 and later. What a line does in the remote
// shell was seen with bash 5.2 and dash 0.5.12.
func ParseEnvFile(file facts.EnvFile) ([]facts.Setting, []hostfile.LineError) {
	var settings []facts.Setting
	var problems []hostfile.LineError
	problem := func(line int, deepspeed, message string) {
		problems = append(problems, hostfile.LineError{File: file.Path, Line: line, Message: message, DeepSpeed: deepspeed})
	}
	if file.Error != "" {
		problem(0, file.Error, "cannot be read ("+file.Error+"), and DeepSpeed dies on it: make it readable, or move it away")
	}
	for i, line := range file.Lines {
		name, value, found := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		// Under pdsh the line becomes `export LINE;`, so a word too many is harmless.
		bare := strings.TrimSpace(strings.TrimPrefix(name, "export "))
		switch {
		case !found:
			problem(i+1, "ValueError: not enough values to unpack (expected 2, got 1)",
				"every line must be NAME=VALUE; blank lines and comments end the launch: remove the line")
		case strings.HasPrefix(name, "#"):
			problem(i+1, "", "is no comment: it makes one of the rest of the remote command, so the nodes run nothing and report success; remove the line")
		case !identifier(bare):
			problem(i+1, "", fmt.Sprintf("%q is no name of a variable: bash goes on without it, dash ends the whole command; correct the line", name))
		default:
			settings = append(settings, facts.Setting{Name: bare, Value: strings.TrimSpace(value), Source: file.Path})
		}
	}
	return settings, problems
}

func identifier(name string) bool {
	return name != "" && !(name[0] >= '0' && name[0] <= '9') &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// RankEnv is what a rank on a node will really see of the allow-listed
// variables, sorted by name: the node's own session, what the launcher exports
// over it, and below both NCCL's configuration files, which never override the
// environment (NVIDIA/nccl 2.30, misc/param.cc, initEnv).
//
// An exported NCCL_CONF_FILE replaces the file of the node's home. What that
// file says is known only when the node looked at the same one.
func RankEnv(node *facts.Env, exports []facts.Setting) []facts.Setting {
	byName := func(a, b facts.Setting) int { return cmp.Compare(a.Name, b.Name) }
	return slices.SortedFunc(maps.Values(rankEnv(node, exports)), byName)
}

func rankEnv(node *facts.Env, exports []facts.Setting) map[string]facts.Setting {
	all := map[string]facts.Setting{}
	if node != nil {
		for _, s := range node.Vars {
			all[s.Name] = s
		}
	}
	for _, s := range exports {
		all[s.Name] = s
	}
	if node == nil {
		return all
	}
	confFile, named := all["NCCL_CONF_FILE"]
	for _, s := range node.NCCL {
		_, set := all[s.Name]
		replaced := named && s.Source != confFile.Value && s.Source != systemConf
		if !set && !replaced && s.Source != "environment" {
			all[s.Name] = s
		}
	}
	return all
}
