// SPDX-License-Identifier: Apache-2.0

package args

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"preflight/launch"
)

// framework is a program that starts torchrun or accelerate, on this node or, as srun, on every node.
type framework struct {
	names  []string // names of the program
	module string   // its module for python -m
	// starts returns the command that the framework starts, given the words after the framework's
	// name.
	starts func(words []string, around Surroundings) ([]string, error)
}

// frameworks lists the supported frameworks.
//
// Source: hiyouga/LLaMA-Factory ff6d4d12 (2026-08), src/llamafactory/launcher.py, launch;
// axolotl-ai-cloud/axolotl 067b021c (2026-07), src/axolotl/cli/main.py and cli/utils/train.py;
// modelscope/ms-swift 3602360a (2026-08), swift/cli/main.py, cli_main, and cli/_megatron/main.py.
// oracle/frameworks_test.go compares the results with LLaMA-Factory 0.9.5, axolotl 0.19.0 and ms-swift
// 4.6.0.
var frameworks = []framework{
	{[]string{"llamafactory-cli", "lmf"}, "llamafactory.cli", llamaFactory},
	{[]string{"axolotl"}, "axolotl.cli.main", axolotl},
	{[]string{"swift"}, "swift.cli.main", func(words []string, around Surroundings) ([]string, error) {
		return swift("swift", "swift.cli.", []string{"sft", "pt", "rlhf"}, words, around)
	}},
	{[]string{"megatron"}, "swift.cli._megatron.main", func(words []string, around Surroundings) ([]string, error) {
		return swift("megatron", "swift.cli._megatron.", []string{"sft", "pt", "rlhf"}, words, around)
	}},
	{[]string{srunName}, "", srun},
}

// started returns the command that a framework's words start, the framework's name, and the
// interpreter that the words name. command is nil if the words do not begin with a framework.
func started(words []string, around Surroundings) (command []string, by, interpreter string, err error) {
	name, rest := path.Base(words[0]), words[1:]
	isModule := false
	if pythonName.MatchString(name) {
		if path.IsAbs(words[0]) {
			interpreter = words[0]
		}
		if isModule, name, rest = pythonRuns(words[1:]); !isModule {
			name = path.Base(name)
		}
	}
	at := slices.IndexFunc(frameworks, func(f framework) bool {
		return isModule && name == f.module || !isModule && slices.Contains(f.names, name)
	})
	if at < 0 {
		return nil, "", "", nil
	}
	command, err = frameworks[at].starts(rest, around)
	if isModule {
		name = frameworks[at].names[0]
	}
	return command, name, interpreter, err
}

func refuseFramework(program, format string, values ...any) error {
	return &launch.UsageError{Program: program, Message: fmt.Sprintf(format, values...)}
}

// isOn reports whether LLaMA-Factory treats a variable's value as on.
func isOn(value string) bool {
	return slices.Contains([]string{"true", "y", "1"}, strings.ToLower(value))
}

// llamaFactory returns a torchrun command if LLaMA-Factory is told to start torchrun or sees
// several devices. It leaves the number of devices to torchrun, which counts them in the same way.
func llamaFactory(words []string, around Surroundings) ([]string, error) {
	const program = "llamafactory-cli"
	env := around.Getenv
	if len(words) == 0 || words[0] != "train" {
		return nil, refuseFramework(program, "only llamafactory-cli train starts a training: write llamafactory-cli train config.yaml")
	}
	nodes := cmp.Or(env("NNODES"), "1")
	set := "NNODES is " + nodes
	if env("RDZV_ID") != "" && env("MIN_NNODES") != "" && env("MAX_NNODES") != "" {
		nodes = env("MIN_NNODES") + ":" + env("MAX_NNODES")
		set = "MIN_NNODES:MAX_NNODES is " + nodes
	}
	forced := isOn(env("FORCE_TORCHRUN")) || isOn(env("USE_MCA")) || isOn(env("USE_MEGATRON_BRIDGE"))
	switch {
	case !forced && (isOn(env("USE_RAY")) || isOn(env("USE_KT"))):
		return nil, refuseFramework(program, "with USE_RAY or USE_KT it starts no torchrun, and preflight does not know where the ranks will run: check only the hosts, without a command")
	case !forced && nodes != "1":
		return nil, refuseFramework(program, "%s, but on a node with one device it starts no torchrun and trains alone: set FORCE_TORCHRUN=1", set)
	case nodes != "1" && env("MASTER_ADDR") == "":
		return nil, refuseFramework(program, "%s, but without MASTER_ADDR every node connects to itself, at 127.0.0.1: set it to the first node's address", set)
	case nodes != "1" && env("MASTER_PORT") == "":
		return nil, refuseFramework(program, "%s, but without MASTER_PORT every node uses a different free port: set it to the same number on all nodes", set)
	}
	command := []string{"torchrun", "--nproc_per_node", cmp.Or(env("NPROC_PER_NODE"), "gpu")}
	address, port := cmp.Or(env("MASTER_ADDR"), "127.0.0.1"), env("MASTER_PORT")
	if id := env("RDZV_ID"); id != "" {
		command = append(command, "--nnodes", nodes, "--rdzv-id", id, "--rdzv-backend", "c10d", "--rdzv-endpoint", strings.TrimSuffix(address+":"+port, ":"),
			"--max-restarts", cmp.Or(env("MAX_RESTARTS"), "0"))
	} else {
		command = append(command, "--nnodes", nodes)
		if rank := env("NODE_RANK"); rank != "" { // if NODE_RANK is not set, LLaMA-Factory passes 0, which is torchrun's default
			command = append(command, "--node_rank", rank)
		}
		command = append(command, "--master_addr", address)
		if port != "" {
			command = append(command, "--master_port", port)
		}
	}
	return append(append(command, "-m", "llamafactory.launcher"), words[1:]...), nil
}

// axolotl returns the command that axolotl starts. axolotl passes the words after its own "--" to
// that command, and its other options to the ranks.
func axolotl(words []string, _ Surroundings) ([]string, error) {
	if len(words) == 0 || words[0] != "train" {
		return nil, refuseFramework("axolotl", "only axolotl train starts a training: write axolotl train config.yaml")
	}
	words = words[1:]
	var forLauncher []string
	if dash := slices.Index(words, "--"); dash >= 0 {
		words, forLauncher = words[:dash], slices.Clone(words[dash+1:])
	}
	launcher := "accelerate"
	var ours, others []string
	for i := 0; i < len(words); i++ {
		name, value, isPair := strings.Cut(words[i], "=")
		name = strings.ReplaceAll(name, "_", "-")
		taken := slices.Contains([]string{"--launcher", "--num-processes", "--main-process-port", "--cloud", "--sweep"}, name)
		if taken && !isPair && i+1 < len(words) {
			i++
			value = words[i]
		}
		switch name {
		case "--launcher":
			launcher = value
		case "--num-processes", "--main-process-port":
			ours = append(ours, "--"+strings.ReplaceAll(name[2:], "-", "_")+"="+value)
		case "--cloud", "--sweep", "--use-ray":
			return nil, refuseFramework("axolotl", "with %s it starts elsewhere, or many times: check one training on these hosts, without it", name)
		default:
			others = append(others, words[i])
		}
	}
	var command []string
	forLauncher = append(ours, forLauncher...)
	switch launcher {
	case "accelerate":
		command = append([]string{"accelerate", "launch"}, forLauncher...)
	case "torchrun":
		command = append([]string{"torchrun"}, forLauncher...)
		has := func(name string) bool {
			return slices.ContainsFunc(forLauncher, func(word string) bool { return strings.Contains(word, name) })
		}
		if has("--rdzv_endpoint") && !has("--rdzv_backend") {
			command = append(command, "--rdzv_backend", launch.RendezvousC10d)
		}
		if has("--rdzv_endpoint") && !has("--rdzv_id") && severalNodes(forLauncher) {
			return nil, refuseFramework("axolotl", "without --rdzv_id, axolotl gives each node a random one, and nodes with different ones never connect to each other: add --rdzv_id NAME after --")
		}
	default:
		return nil, refuseFramework("axolotl", "with --launcher %s it starts one process, which connects to no other: use accelerate or torchrun", launcher)
	}
	return append(append(command, "-m", "axolotl.cli.train"), others...), nil
}

// severalNodes reports whether options of torchrun ask for more than one node.
func severalNodes(options []string) bool {
	for i, word := range options {
		name, value, isPair := strings.Cut(word, "=")
		if name == "--nnodes" && !isPair && i+1 < len(options) {
			value = options[i+1]
		}
		if name == "--nnodes" {
			return value != "1" && value != "1:1"
		}
	}
	return false
}

// swift returns the command that ms-swift starts. ms-swift starts torchrun if NPROC_PER_NODE or
// NNODES is set in the environment or in its configuration. The entries of the configuration become
// options in the same order.
func swift(program, modules string, methods, words []string, around Surroundings) ([]string, error) {
	if len(words) == 0 || !slices.Contains(methods, strings.ReplaceAll(words[0], "_", "-")) {
		return nil, refuseFramework(program, "preflight checks only the trainings of %s: write %[1]s %s …", program, strings.Join(methods, ", or "+program+" "))
	}
	arguments, configured, err := spelledOut(program, words[1:], around)
	if err != nil {
		return nil, err
	}
	env := func(name string) string { return cmp.Or(around.Getenv(name), configured[name]) }
	if env("NPROC_PER_NODE") == "" && env("NNODES") == "" {
		return nil, refuseFramework(program, "without NPROC_PER_NODE and NNODES it starts one process, which connects to no other: set both, and NODE_RANK and MASTER_ADDR, on every node")
	}
	command := []string{"torchrun"}
	for _, name := range []string{"NPROC_PER_NODE", "MASTER_PORT", "NNODES", "NODE_RANK", "MASTER_ADDR"} {
		if value := env(name); value != "" {
			command = append(command, "--"+strings.ToLower(name), value)
		}
	}
	return append(append(command, "-m", modules+strings.ReplaceAll(words[0], "-", "_")), arguments...), nil
}

// spelledOut replaces a configuration file at the start of the words by options, one for each entry
// of the file. Entries under ENV become variables.
func spelledOut(program string, words []string, around Surroundings) (arguments []string, env map[string]string, err error) {
	if len(words) == 0 || !isConfiguration(words[0]) {
		return words, nil, nil
	}
	config, err := readConfiguration(words[0], around)
	if err != nil {
		return nil, nil, refuseFramework(program, "%v", err)
	}
	env = map[string]string{}
	for i := 0; i+1 < len(config.Content); i += 2 {
		key, value := config.Content[i].Value, config.Content[i+1]
		switch {
		case key == "ENV":
			for j := 0; j+1 < len(value.Content); j += 2 {
				env[value.Content[j].Value] = value.Content[j+1].Value
			}
		case value.Kind == yaml.SequenceNode:
			arguments = append(arguments, "--"+key)
			for _, entry := range value.Content {
				arguments = append(arguments, entry.Value)
			}
		case value.Kind == yaml.MappingNode:
			var fields map[string]any
			err := value.Decode(&fields)
			text, spelled := json.Marshal(fields)
			if err := errors.Join(err, spelled); err != nil {
				return nil, nil, refuseFramework(program, "%s: %s: %v", words[0], key, err)
			}
			arguments = append(arguments, "--"+key, string(text))
		default:
			arguments = append(arguments, "--"+key, value.Value)
		}
	}
	return append(arguments, words[1:]...), env, nil
}

// isConfiguration reports whether a framework would treat a word as the name of its configuration
// file.
func isConfiguration(word string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(word))
}

var errNoMapping = errors.New("it is not a mapping of names to values")

// readConfiguration reads a settings file. JSON is read as YAML.
func readConfiguration(name string, around Surroundings) (*yaml.Node, error) {
	text, err := around.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s not found: correct its path", name)
	case err != nil:
		return nil, fmt.Errorf("%s cannot be read: %w", name, err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("%s is no YAML: %w", name, err)
	}
	if len(document.Content) == 0 || document.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s: %w", name, errNoMapping)
	}
	return document.Content[0], nil
}

// places lists entries of a trainer's configuration that always name a file or directory. Without
// this list, a short path such as saves/qwen could also be a model on a hub.
var places = []string{"output_dir", "dataset_dir", "dataset_prepared_path", "logging_dir", "run_dir", "tokenized_path"}

// configured is the content of the configuration file that is passed to a script.
type configured struct {
	deepspeed string   // the DeepSpeed configuration that it names
	paths     []string // other possible paths
	options   []string // its plain entries, as options of the script
}

// configuredBy reads the configuration file that is passed to a trainer. It ignores a file that
// cannot be read, because the script itself will report that.
func configuredBy(arguments []string, around Surroundings) (said configured) {
	if len(arguments) == 0 || !isConfiguration(arguments[0]) || around.ReadFile == nil {
		return said
	}
	config, err := readConfiguration(arguments[0], around)
	if err != nil {
		return said
	}
	for i := 0; i+1 < len(config.Content); i += 2 {
		key, value := config.Content[i].Value, config.Content[i+1]
		if key == "deepspeed" && value.Kind == yaml.ScalarNode && path.Ext(value.Value) == ".json" {
			said.deepspeed = value.Value
			continue
		}
		if value.Kind == yaml.ScalarNode {
			said.options = append(said.options, "--"+key+"="+value.Value)
		}
		if key == "datasets" { // axolotl's data sets, each with its path
			said.options = append(said.options, dataSets(value)...)
		}
		for _, text := range texts(value) {
			if slices.Contains(places, key) && !path.IsAbs(text) {
				text = "./" + text
			}
			said.paths = append(said.paths, text)
		}
	}
	return said
}

// dataSets returns the paths of a list of data sets, as one option with several values.
//
// Source: axolotl-ai-cloud/axolotl 0.12, utils/schemas/datasets.py.
func dataSets(list *yaml.Node) (option []string) {
	for _, entry := range list.Content {
		for i := 0; i+1 < len(entry.Content); i += 2 {
			if entry.Content[i].Value == "path" {
				option = append(option, entry.Content[i+1].Value)
			}
		}
	}
	if option != nil {
		option = append([]string{"--datasets"}, option...)
	}
	return option
}

// texts returns the plain values in a part of a configuration.
func texts(node *yaml.Node) (all []string) {
	switch node.Kind {
	case yaml.ScalarNode:
		if node.Tag == "!!str" {
			all = append(all, node.Value)
		}
	case yaml.MappingNode:
		for i := 1; i < len(node.Content); i += 2 {
			all = append(all, texts(node.Content[i])...)
		}
	case yaml.SequenceNode:
		for _, entry := range node.Content {
			all = append(all, texts(entry)...)
		}
	}
	return all
}
