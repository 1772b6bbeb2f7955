// SPDX-License-Identifier: Apache-2.0

package args

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"preflight/hostfile"
	"preflight/launch"
)

type torchrunArgs struct {
	nnodes, perNode                string
	backend, endpoint, conf, runID string
	standalone                     bool
	redirects, tee, shown          string // where the ranks' output goes
	maxRestarts                    int
	nodeRank                       *int // nil if not given
	masterAddr, localAddr          string
	masterPort                     *int
	isModule, noPython             bool
	runPath, useEnv                bool
}

// parseTorchrun parses the words after "torchrun". Options that are not given come from the
// environment.
func parseTorchrun(p program, around Surroundings) (Typed, error) {
	a := torchrunArgs{nnodes: "1:1", perNode: "1", backend: launch.RendezvousStatic, redirects: "0", tee: "0"}
	parser := argumentParser{program: launch.ProgramTorchrun, prog: p.prog, options: a.options(p.legacy), abbreviate: true,
		required: "training_script, training_script_args", checksRemainder: checksRemainder(around.Python)}
	if err := parser.preset(around); err != nil {
		return Typed{}, err
	}
	r, err := parser.parse(p.words)
	if err != nil {
		return Typed{}, err
	}
	if p.legacy && a.noPython && !a.useEnv {
		return Typed{}, refuseTorchrun("ValueError: When using the '--no-python' flag, you must also set the '--use-env' flag.", "torch.distributed.launch accepts --no-python only with --use-env: add that, or use torchrun")
	}
	t, err := a.typed()
	if err != nil {
		return Typed{}, err
	}
	t.Script, t.Arguments, t.Interpreter = r.script, r.arguments, ranksPython(around)
	t.Notes = append(t.Notes, logLevelNote(around)...)
	return t, nil
}

// logLevelNote reports a LOGLEVEL that Python does not know. torchrun passes the variable to
// Python's logging when it is imported.
//
// Source: torch/distributed/elastic/utils/logging.py, _setup_logger, 2.4 to 2.15, and logging of
// Python 3.13, _checkLevel.
func logLevelNote(around Surroundings) []hostfile.Note {
	level := around.Getenv("LOGLEVEL")
	if level == "" || slices.Contains([]string{"CRITICAL", "DEBUG", "ERROR", "FATAL", "INFO", "NOTSET", "WARN", "WARNING"}, level) {
		return nil
	}
	return []hostfile.Note{{ID: "log-level-unknown", Message: fmt.Sprintf("LOGLEVEL=%s is no level of Python's logging, to which torchrun passes it: use one such as INFO", level)}}
}

// ranksPython returns the interpreter that torchrun starts instead of its own, "" for its own. A
// name without a path is looked up on every node.
//
// Source: torch/distributed/run.py, config_from_args, 2.15.
func ranksPython(around Surroundings) string {
	if python := around.Getenv("PYTHON_EXEC"); strings.HasPrefix(python, "/") {
		return python
	}
	return ""
}

func refuseTorchrun(original, format string, values ...any) *launch.UsageError {
	return &launch.UsageError{Program: launch.ProgramTorchrun, Original: original, Message: fmt.Sprintf(format, values...)}
}

// options returns torchrun's options. Options that do not affect the prediction are read and
// ignored.
//
// Source: torch/distributed/run.py, get_args_parser, 2.15, and launch.py, parse_args.
func (a *torchrunArgs) options(legacy bool) []option {
	forgotten := new(string)
	options := []option{
		{names: []string{"-h", "--help"}},
		{names: []string{"--nnodes"}, into: &a.nnodes},
		{names: spellings("--nproc-per-node"), into: &a.perNode},
		{names: spellings("--rdzv-backend"), into: &a.backend},
		{names: spellings("--rdzv-endpoint"), into: &a.endpoint},
		{names: spellings("--rdzv-id"), into: &a.runID},
		{names: spellings("--rdzv-conf"), into: &a.conf},
		{names: []string{"--standalone"}, into: &a.standalone},
		{names: spellings("--max-restarts"), into: &a.maxRestarts},
		{names: spellings("--monitor-interval"), into: new(float64)},
		{names: spellings("--start-method"), into: forgotten, choices: []string{"spawn", "fork", "forkserver"}},
		{names: spellings("--event-log-handler"), into: forgotten},
		{names: []string{"--role"}, into: forgotten},
		{names: []string{"-m", "--module"}, into: &a.isModule},
		{names: spellings("--no-python"), into: &a.noPython},
		{names: spellings("--run-path"), into: &a.runPath},
		{names: spellings("--log-dir"), into: forgotten},
		{names: []string{"-r", "--redirects"}, into: &a.redirects},
		{names: []string{"-t", "--tee"}, into: &a.tee},
		{names: spellings("--log-line-prefix-template"), into: forgotten},
		{names: spellings("--local-ranks-filter"), into: &a.shown},
		{names: spellings("--duplicate-stdout-filters"), into: forgotten},
		{names: spellings("--duplicate-stderr-filters"), into: forgotten},
		{names: spellings("--node-rank"), into: &a.nodeRank},
		{names: spellings("--master-addr"), into: &a.masterAddr},
		{names: spellings("--master-port"), into: &a.masterPort},
		{names: spellings("--local-addr"), into: &a.localAddr},
		{names: spellings("--logs-specs"), into: forgotten},
		{names: spellings("--numa-binding"), into: forgotten, choices: []string{"node", "socket", "exclusive", "core-complex"}},
		{names: spellings("--signals-to-handle"), into: forgotten},
		{names: spellings("--shutdown-timeout"), into: new(int)},
		{names: spellings("--virtual-local-rank"), into: new(bool)},
		{names: spellings("--print-completion"), into: forgotten, choices: []string{"bash", "zsh", "tcsh"}},
	}
	if legacy {
		options = append(options, option{names: spellings("--use-env"), into: &a.useEnv})
	}
	return options
}

// spellings returns a name in two spellings: as given, and with hyphens and underscores exchanged.
func spellings(name string) []string {
	for _, mark := range []struct{ old, new string }{{"_", "-"}, {"-", "_"}} {
		if words := name[2:]; strings.Contains(words, mark.old) {
			return []string{name, "--" + strings.ReplaceAll(words, mark.old, mark.new)}
		}
	}
	return []string{name}
}

// unset lists the options that no environment variable can set.
var unset = []string{"-h", "--logs-specs", "--numa-binding", "--print-completion", "--use-env"}

// preset sets the options that are not given on the command line from the environment.
//
// Source: torch/distributed/argparse_util.py, env and check_env, 2.15.
func (p argumentParser) preset(around Surroundings) error {
	for i, o := range p.options {
		if slices.Contains(unset, o.names[0]) {
			continue
		}
		name := "PET_" + strings.ToUpper(strings.ReplaceAll(o.long()[2:], "-", "_"))
		value := around.Getenv(name)
		if value == "" {
			continue
		}
		flag, isFlag := o.into.(*bool)
		if !isFlag {
			p.options[i].preset = value
			continue
		}
		digits, ok := hostfile.PythonInt(value)
		if !ok {
			return refuseTorchrun("ValueError: invalid literal for int() with base 10: "+hostfile.PythonRepr(value), "the environment has %s=%s, which must be 0 or 1: unset it", name, value)
		}
		*flag = strings.Trim(digits, "-0") != ""
	}
	return nil
}

// typed checks and converts the options as torchrun does before it starts anything.
//
// Source: torch/distributed/run.py, run and config_from_args, 2.15.
func (a *torchrunArgs) typed() (Typed, error) {
	var t Typed
	t.Program, t.Rendezvous, t.RdzvEndpoint, t.RdzvID = launch.ProgramTorchrun, a.backend, a.endpoint, a.runID
	t.MasterAddr, t.NodeRank = a.masterAddr, orElse(a.nodeRank, 0)
	if !a.runPath { // with --run-path the agents read the script themselves
		t.Module, t.NoPython = a.isModule, a.noPython
	}
	if a.standalone {
		t.Rendezvous, t.RdzvEndpoint = launch.RendezvousC10d, launch.StandaloneEndpoint
	}
	if a.masterPort != nil {
		t.MasterPort = *a.masterPort
	}
	var err error
	if t.MinNodes, t.MaxNodes, err = nodeRange(a.nnodes); err != nil {
		return Typed{}, err
	}
	if a.maxRestarts < 0 {
		return Typed{}, refuseTorchrun("AssertionError: max_restarts must be >= 0", "--max-restarts %d is below 0: leave it out for none", a.maxRestarts)
	}
	if t.PerNode, err = perNode(a.perNode); err != nil {
		return Typed{}, err
	}
	if t.PerNode == "cpu" {
		t.Accelerator = "cpu"
	}
	if err := checkRendezvousConf(a.conf); err != nil {
		return Typed{}, err
	}
	if err := a.checkOutput(); err != nil {
		return Typed{}, err
	}
	if t.Module && t.NoPython {
		return Typed{}, refuseTorchrun("ValueError: Don't use both the '--no-python' flag and the '--module' flag at the same time.", "--module and --no-python conflict: drop one")
	}
	switch t.Rendezvous {
	case "":
		return Typed{}, refuseTorchrun("ValueError: The rendezvous backend name must be a non-empty string.", "--rdzv-backend is empty: leave it out for static, or use c10d")
	case launch.RendezvousDeepSpeed: // preflight's own word for a launch without torchrun
		return Typed{}, refuseTorchrun("ValueError: The rendezvous backend 'deepspeed' is not registered. Did you forget to call `register`?", "torchrun has no rendezvous backend deepspeed: use static or c10d")
	}
	t.Notes = append(a.rankNotes(t), a.addressNotes(t)...)
	if (launch.Prediction{Rendezvous: t.Rendezvous}).HasExternalRendezvous() {
		t.Notes = append(t.Notes, hostfile.Note{ID: "rdzv-backend-unknown", Message: fmt.Sprintf(
			"--rdzv-backend %s uses a separate rendezvous service, at %s, which preflight cannot check: use c10d, or check that service yourself", t.Rendezvous, cmp.Or(a.endpoint, "no endpoint"))})
	}
	return t, nil
}

// rankNotes warns about node ranks of the static backend. If a rank is out of range, or all nodes
// have the same rank, the nodes wait for the rank that is missing.
//
// Source: torch/distributed/run.py, get_args_parser, and
// elastic/rendezvous/static_tcp_rendezvous.py, 1.13 to 2.15.
func (a *torchrunArgs) rankNotes(t Typed) []hostfile.Note {
	switch rank := orElse(a.nodeRank, 0); {
	case t.Rendezvous != launch.RendezvousStatic:
		return nil
	case rank < 0 || rank >= t.MaxNodes:
		return []hostfile.Note{{ID: "node-rank-range", Message: fmt.Sprintf(
			"node rank %d is outside the %d nodes' ranks, which start at 0: all nodes wait for the node whose rank is missing", rank, t.MaxNodes)}}
	case a.nodeRank == nil && t.MaxNodes > 1:
		message := fmt.Sprintf("without a node rank every node acts as node 0 of %d and waits for the others: give each node its own, from 0 to %d", t.MaxNodes, t.MaxNodes-1)
		if a.endpoint != "" {
			message += ", or add --rdzv_backend=c10d, with which torchrun assigns the ranks"
		}
		return []hostfile.Note{{ID: "node-rank-missing", Message: message}}
	}
	return nil
}

// addressNotes warns about a loopback address that the node of rank 0 publishes as its own in c10d
// mode. The static backend does not use the address.
//
// Source: torch/distributed/elastic/rendezvous/dynamic_rendezvous.py, _NodeDescGenerator and
// next_rendezvous, 2.0 to 2.15.
func (a *torchrunArgs) addressNotes(t Typed) []hostfile.Note {
	address, err := netip.ParseAddr(a.localAddr)
	isOwn := a.localAddr == "localhost" || err == nil && (address.IsLoopback() || address.IsUnspecified())
	if !isOwn || t.Rendezvous != launch.RendezvousC10d || t.MaxNodes < 2 {
		return nil
	}
	return []hostfile.Note{{ID: "local-addr-loopback", Message: fmt.Sprintf(
		"--local-addr or PET_LOCAL_ADDR is %s: each node connects to itself instead of to rank 0", a.localAddr)}}
}

// nodeRange parses --nnodes, which is N or MIN:MAX.
func nodeRange(text string) (least, most int, err error) {
	bounds := strings.Split(text, ":")
	if len(bounds) > 2 {
		return 0, 0, refuseTorchrun(fmt.Sprintf(`RuntimeError: nnodes=%s is not in "MIN:MAX" format`, text), "--nnodes %s is neither a number nor a range: write MIN:MAX", text)
	}
	var numbers []int
	for _, bound := range bounds {
		digits, ok := hostfile.PythonInt(bound)
		number, err := strconv.Atoi(digits)
		if !ok || err != nil {
			return 0, 0, refuseTorchrun("ValueError: invalid literal for int() with base 10: "+hostfile.PythonRepr(bound), "--nnodes %s is neither a number nor a range: write N or MIN:MAX", text)
		}
		numbers = append(numbers, number)
	}
	least, most = numbers[0], numbers[len(numbers)-1]
	if least <= 0 || least > most {
		return 0, 0, refuseTorchrun(fmt.Sprintf("AssertionError: min_nodes must be > 0 and <= max_nodes, got min_nodes=%d, max_nodes=%d", least, most),
			"--nnodes %s: the first number must be at least 1 and not above the second", text)
	}
	return least, most, nil
}

// perNode parses --nproc-per-node, which is a number, or a word that tells torchrun what to count.
//
// Source: torch/distributed/run.py, determine_local_world_size, 2.15.
func perNode(text string) (string, error) {
	if digits, ok := hostfile.PythonInt(text); ok {
		if n, err := strconv.Atoi(digits); err == nil {
			digits = strconv.Itoa(n) // without leading zeros
		}
		return digits, nil
	}
	if !slices.Contains([]string{"auto", "gpu", "cpu", "xpu"}, text) {
		return "", refuseTorchrun("ValueError: Unsupported nproc_per_node value: "+text, "--nproc-per-node %q is neither a number nor auto, gpu, cpu or xpu", text)
	}
	return text, nil
}

// streams matches the value that selects which output streams go to a file, either for all ranks
// (3) or rank by rank (0:1,1:2).
var streams = regexp.MustCompile(`^([0-3]|([0-9]:[0-3],)*[0-9]:[0-3])$`)

// checkOutput checks the values of --local-ranks-filter, --redirects and --tee.
//
// Source: torch/distributed/run.py, config_from_args, and elastic/multiprocessing/api.py,
// Std.from_str, 2.15.
func (a *torchrunArgs) checkOutput() error {
	if a.shown != "" {
		for rank := range strings.SplitSeq(a.shown, ",") {
			if _, ok := hostfile.PythonInt(rank); !ok {
				return refuseTorchrun("ValueError: --local_ranks_filter must be a comma-separated list of integers e.g. --local_ranks_filter=0,1,2", "--local-ranks-filter %q is not a list of ranks: write it like 0,1,2", a.shown)
			}
		}
	}
	for _, option := range []struct{ name, value string }{{"--redirects", a.redirects}, {"--tee", a.tee}} {
		if !streams.MatchString(option.value) {
			return refuseTorchrun(fmt.Sprintf(`ValueError: %s does not match: <^[0123]$> or <^(\d:[0123],)*(\d:[0123])$>`, option.value), "%s %q names no output streams: write 3 for stdout and stderr of every rank", option.name, option.value)
		}
	}
	return nil
}

// checkRendezvousConf checks the value of --rdzv-conf, KEY=VALUE[,KEY=VALUE…].
//
// Source: torch/distributed/elastic/rendezvous/utils.py, _parse_rendezvous_config, 2.15.
func checkRendezvousConf(text string) error {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	for pair := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(pair, "=")
		key = strings.TrimSpace(key)
		switch {
		case key == "":
			return refuseTorchrun("ValueError: The rendezvous configuration string must be in format <key1>=<value1>,...,<keyN>=<valueN>.",
				"--rdzv-conf %q has a part without a key: write KEY=VALUE,KEY=VALUE", text)
		case strings.TrimSpace(value) == "":
			return refuseTorchrun(fmt.Sprintf("ValueError: The rendezvous configuration option '%s' must have a value specified.", key),
				"--rdzv-conf gives %s no value: write %[1]s=VALUE", key)
		}
	}
	return nil
}
