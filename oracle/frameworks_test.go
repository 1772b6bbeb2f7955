// SPDX-License-Identifier: Apache-2.0

//go:build oracle

package oracle_test

import (
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"preflight/launch"
	"preflight/launch/args"
)

// frameworkCommand is a command of a framework.
type frameworkCommand struct {
	Argv    []string          `json:"argv"`
	Env     map[string]string `json:"env"`
	Devices int               `json:"devices"`
}

// TestFrameworks lets real releases of LLaMA-Factory, axolotl and ms-swift and preflight read the
// same commands, and compares the torchrun or accelerate that they start.
func TestFrameworks(t *testing.T) {
	t.Parallel()
	d := frameworkDealer{rand.New(rand.NewPCG(seed(t), 35))}
	var commands []frameworkCommand
	for range 1000 {
		commands = append(commands, d.deal())
	}
	python := named("2.15").python
	dir := t.TempDir()
	version, all := answers[[]string](t, commands, python, "-W", "ignore", "frameworks.py", filepath.Join(filepath.Dir(python), "../../frameworks"), dir)
	count, disputes := map[string]int{}, disputes{}
	for i, c := range commands {
		outcome, diff := compareFramework(c, all[i], dir)
		if count[outcome]++; diff != "" {
			disputes.add(outcome+": "+diff, command{Argv: c.Argv, Env: c.Env}, strings.Join(all[i], " "))
		}
	}
	t.Logf("%s: %d commands: %v", version, len(commands), count)
	for _, dispute := range disputes.sorted() {
		t.Error(dispute)
	}
	for _, outcome := range []string{"starts nothing", "refused", "same"} {
		if count[outcome] < len(commands)/20 {
			t.Errorf("only %d commands: %s", count[outcome], outcome)
		}
	}
}

// compareFramework compares the command that a framework starts with the one that preflight reads.
func compareFramework(c frameworkCommand, started []string, dir string) (outcome, diff string) {
	around := args.Surroundings{
		Getenv: func(name string) string { return c.Env[name] },
		ReadFile: func(path string) ([]byte, error) {
			if path != "sft.yaml" {
				return nil, fs.ErrNotExist
			}
			return os.ReadFile(filepath.Join(dir, path))
		},
	}
	got, refusal := args.Parse(c.Argv, "", around)
	if len(started) > 1 && filepath.Base(started[0]) != "torchrun" && started[0] != "accelerate" && !slices.Contains(started, "torch.distributed.run") {
		started = nil // a single process
	}
	switch {
	case started == nil && refusal == nil && (c.Devices > 1 || got.MaxNodes > 1):
		return "starts nothing", "preflight reads " + got.Program
	case started == nil:
		return "starts nothing", ""
	}
	if path := started[0]; filepath.IsAbs(path) {
		started = append([]string{"python3"}, started[1:]...)
	}
	want, err := args.Parse(started, "", around)
	switch {
	case err != nil && refusal != nil:
		return "refused", ""
	case err != nil:
		return "refused", "only by the launcher: " + err.Error()
	case refusal != nil && meets(want.Options, started, c):
		return "refused", refusal.Error()
	case refusal != nil:
		return "refused", ""
	case !meets(want.Options, started, c):
		return "same", "the nodes do not meet"
	}
	// The script is a file here, and a module for preflight.
	if module := strings.ReplaceAll(strings.TrimSuffix(want.Script, ".py"), "/", "."); !want.Module && strings.HasSuffix(module, "."+got.Script) {
		want.Script, want.Module = got.Script, true
	}
	if got.PerNode == "gpu" { // preflight leaves the number to the launcher
		got.PerNode = want.PerNode
	}
	if got.MasterPort == 0 {
		want.MasterPort = 0
	}
	if got.RdzvID == "" { // a random one, for a single node
		want.RdzvID = ""
	}
	if _, port, _ := strings.Cut(got.RdzvEndpoint, ":"); port == "" {
		want.RdzvEndpoint = got.RdzvEndpoint
	}
	for _, o := range []*launch.Options{&want.Options, &got.Options} {
		o.Framework, o.Interpreter, o.ConfigFile, o.Reads, o.Configured, o.Notes, o.ByModule = "", "", "", nil, nil, nil, false
		// Python's and Go's spellings of JSON and booleans differ.
		o.Arguments = []string{strings.ToLower(strings.NewReplacer("=", "", " ", "").Replace(strings.Join(o.Arguments, "")))}
	}
	if strings.HasPrefix(want.Arguments[0], got.Arguments[0]) { // axolotl adds defaults
		want.Arguments = got.Arguments
	}
	if !equal(want.Options, got.Options) {
		kind, _ := difference("options", want.Options, got.Options)
		return "same", kind
	}
	return "same", ""
}

// meets reports whether the ranks of several nodes that type the command would meet. They do not if
// each node uses itself as the master, another port or another ID, or if nodes with one device train
// alone.
func meets(o launch.Options, started []string, c frameworkCommand) bool {
	own := o.MasterAddr == "127.0.0.1" || strings.HasPrefix(o.RdzvEndpoint, "127.0.0.1:")
	otherPort := c.Argv[0] == "llamafactory-cli" && c.Env["MASTER_PORT"] == ""
	otherID := c.Argv[0] == "axolotl" && slices.Contains(started, "--rdzv_id") && !slices.Contains(c.Argv, "--rdzv_id")
	alone := c.Argv[0] == "llamafactory-cli" && !slices.Contains([]string{"1", "true"}, c.Env["FORCE_TORCHRUN"]) && c.Env["USE_MCA"] == ""
	return o.MaxNodes == 1 || !own && !otherPort && !otherID && !alone
}

// frameworkDealer generates commands of frameworks.
type frameworkDealer struct{ *rand.Rand }

// frameworkEnv maps variables to values.
var frameworkEnv = map[string][]string{
	"FORCE_TORCHRUN": {"1", "true", "0"}, "NNODES": {"1", "2", "4"}, "NODE_RANK": {"0", "1"}, "MASTER_ADDR": {"w1", "10.0.0.1"}, "MASTER_PORT": {"29500", "29600"},
	"NPROC_PER_NODE": {"8", "1"}, "RDZV_ID": {"job"}, "MIN_NNODES": {"1"}, "MAX_NNODES": {"4"}, "MAX_RESTARTS": {"3"}, "USE_RAY": {"1"}, "USE_KT": {"1"}, "USE_MCA": {"1"},
}

func (d frameworkDealer) deal() frameworkCommand {
	c := frameworkCommand{Env: map[string]string{"PATH": "/usr/bin:/bin"}, Devices: pick(d.Rand, 1, 8)}
	for _, name := range slices.Sorted(maps.Keys(frameworkEnv)) {
		if common := strings.HasPrefix(name, "M") || strings.HasPrefix(name, "N") || name == "FORCE_TORCHRUN"; common && d.IntN(3) > 0 || d.IntN(8) == 0 {
			c.Env[name] = pick(d.Rand, frameworkEnv[name]...)
		}
	}
	some := func(words ...string) {
		if d.IntN(3) == 0 {
			c.Argv = append(c.Argv, words...)
		}
	}
	switch program := pick(d.Rand, "llamafactory-cli", "axolotl", "swift", "megatron"); program {
	case "llamafactory-cli":
		c.Argv = append([]string{program}, pick(d.Rand, []string{"train", "sft.yaml"}, []string{"train", "--stage", "sft", "--lr=1e-4"}, []string{"chat", "sft.yaml"}, []string{"version"})...)
		some("output_dir=out")
	case "axolotl":
		c.Argv = []string{program, pick(d.Rand, "train", "train", "train", "preprocess"), "sft.yaml"}
		some("--launcher", pick(d.Rand, "torchrun", "accelerate", "python"))
		some(pick(d.Rand, []string{"--num-processes", "16"}, []string{"--num-processes=8"})...)
		some("--main-process-port", "29501")
		some(pick(d.Rand, []string{"--learning-rate", "1e-4"}, []string{"--learning-rate=1e-4"})...)
		some("--launcher=torchrun")
		if slices.ContainsFunc(c.Argv, func(word string) bool { return strings.HasSuffix(word, "torchrun") }) {
			some(pick(d.Rand,
				[]string{"--", "--nnodes=2", "--nproc_per_node", "8", "--rdzv_endpoint", "w1:29400"},
				[]string{"--", "--nnodes=2", "--rdzv_endpoint=w1:29400", "--rdzv_id", "job"},
				[]string{"--", "--nnodes=1", "--rdzv_endpoint=localhost:29400"},
				[]string{"--", "--nnodes", "2", "--node_rank", "1", "--master_addr", "w1"})...)
		} else {
			some("--", "--num_machines", "2", "--machine_rank", "0", "--main_process_ip", "w1", "--main_process_port", "29500")
		}
	default:
		c.Argv = append([]string{program, pick(d.Rand, "sft", "pt", "rlhf")}, pick(d.Rand, []string{"sft.yaml"}, []string{"--model", "org/model"}, nil)...)
		some("--lora_rank", "8")
	}
	return c
}
