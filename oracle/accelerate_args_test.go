// SPDX-License-Identifier: Apache-2.0

//go:build oracle

package oracle_test

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"preflight/launch"
	"preflight/launch/args"
)

// accelerateCommand is an `accelerate launch …` with the configuration that it may name.
type accelerateCommand struct {
	Argv   []string `json:"argv"`
	Config string   `json:"config"`
}

// accelerateOutcome is the result of a command. One of three fields is set.
type accelerateOutcome struct {
	Refused  string            `json:"refused"`
	Command  []string          `json:"command"`
	Torchrun *acceleratedTorch `json:"torchrun"`
}

type acceleratedTorch struct {
	Nodes      string   `json:"nnodes"`
	PerNode    string   `json:"nproc_per_node"`
	Backend    string   `json:"rdzv_backend"`
	Endpoint   string   `json:"rdzv_endpoint"`
	NodeRank   string   `json:"node_rank"`
	MasterAddr string   `json:"master_addr"`
	MasterPort string   `json:"master_port"`
	Module     bool     `json:"module"`
	NoPython   bool     `json:"no_python"`
	Script     string   `json:"script"`
	Arguments  []string `json:"arguments"`
}

// TestAccelerateArgs lets a real accelerate and preflight read the same commands. If accelerate
// starts another launcher, preflight must also read that launcher's command in the same way.
func TestAccelerateArgs(t *testing.T) {
	t.Parallel()
	d := dealer{Rand: rand.New(rand.NewPCG(seed(t), 115))}
	var commands []accelerateCommand
	for range 2000 {
		commands = append(commands, d.accelerate())
	}
	python := filepath.Join(oracleHome(), "v215/bin/python")
	version, all := answers[accelerateOutcome](t, commands, "env", "-i", "LC_ALL=C.UTF-8", "HOME="+t.TempDir(), python, "-W", "ignore", "accelerate_args.py", t.TempDir())
	tally, disputes := map[string]int{}, disputes{}
	for i, c := range commands {
		outcome, kind, diff := differAccelerate(all[i], c)
		tally[outcome]++
		if kind != "" {
			disputes.add(kind, command{Argv: c.Argv, Files: map[string][]byte{"config.yaml": []byte(c.Config)}}, diff)
		}
	}
	t.Logf("accelerate %s: %d commands: %v", version, len(commands), tally)
	for _, dispute := range disputes.sorted() {
		t.Error(dispute)
	}
	for _, kind := range []string{"deepspeed", "torchrun", "refused", "declined"} {
		if tally[kind] < len(commands)/20 {
			t.Errorf("only %d commands came to %q", tally[kind], kind)
		}
	}
}

// differAccelerate compares the result of a command with preflight's prediction. preflight refuses
// some commands in its own words: commands that start one process, and commands whose result
// depends on the machine.
func differAccelerate(want accelerateOutcome, c accelerateCommand) (outcome, kind, diff string) {
	typed, err := args.Parse(append([]string{"accelerate-launch"}, c.Argv...), "", args.Surroundings{
		Getenv: func(string) string { return "" },
		ReadFile: func(path string) ([]byte, error) {
			if path != "config.yaml" || c.Config == "" {
				return nil, fs.ErrNotExist
			}
			return []byte(c.Config), nil
		},
	})
	refused := ""
	if err != nil {
		refused = deepspeedMessage(err)
	}
	sides := fmt.Sprintf("-want %+v\n+got  %s", want, refused)
	switch {
	case strings.HasPrefix(refused, ownWords):
		return "declined", "", ""
	case want.Refused != refused:
		return "refused", "refused: " + want.Refused + " / " + refused, sides
	case refused != "":
		return "refused", "", ""
	case want.Torchrun != nil:
		if got := torchOf(typed, want.Torchrun); !equal(want.Torchrun, got) {
			kind, diff = difference("torchrun", want.Torchrun, got)
		}
		return "torchrun", kind, diff
	}
	if want.Command[0] != "deepspeed" {
		return "other", "starts " + want.Command[0], sides
	}
	started, err := args.Parse(want.Command, "", args.Surroundings{})
	if err != nil {
		return "deepspeed", "cannot be read: " + err.Error(), sides
	}
	// The command itself does not contain these fields.
	started.Program, started.Notes, started.ConfigFile = typed.Program, typed.Notes, typed.ConfigFile
	if !equal(started, typed) {
		kind, diff = difference("deepspeed", started, typed)
	}
	return "deepspeed", kind, diff
}

// torchOf converts options back to those of torch.distributed.run. Options that have no meaning in
// torch.distributed.run stay unchanged.
func torchOf(o args.Typed, want *acceleratedTorch) *acceleratedTorch {
	got := &acceleratedTorch{
		Nodes: strconv.Itoa(o.MinNodes), PerNode: o.PerNode, Backend: o.Rendezvous, Endpoint: o.RdzvEndpoint, NodeRank: strconv.Itoa(o.NodeRank),
		MasterAddr: cmp.Or(o.MasterAddr, "127.0.0.1"), MasterPort: strconv.Itoa(cmp.Or(o.MasterPort, launch.DefaultMasterPort)),
		Module: o.Module, NoPython: o.NoPython, Script: o.Script, Arguments: o.Arguments,
	}
	if want.MasterPort == "None" {
		want.MasterPort = strconv.Itoa(launch.DefaultMasterPort)
	}
	if want.Nodes == "1:1" || want.Nodes == "1" { // a single node can meet itself at any address
		want.Nodes, want.NodeRank, want.MasterPort = "1", got.NodeRank, got.MasterPort
	}
	if got.PerNode == "gpu" { // as many as accelerate_args.py reports
		got.PerNode = "8"
	}
	return got
}

// accelerateValues maps options to values, with valid values first.
var accelerateValues = map[string][]string{
	"num_processes":                {"16", "8", "4", "1", "15", "x", "-1", "0"},
	"num_machines":                 {"2", "2", "4", "1", "0"},
	"machine_rank":                 {"0", "1", "1", "x"},
	"main_process_ip":              {"w1", "10.0.0.1"},
	"main_process_port":            {"29501", "29500", "29502", "0", "x"},
	"deepspeed_hostfile":           {"hostfile", "/etc/hostfile"},
	"deepspeed_multinode_launcher": {"pdsh", "standard", "openmpi", "mvapich", "mpich", "nossh", "slurm", "ssh"},
	"deepspeed_inclusion_filter":   {"w1@w2:0,1"},
	"deepspeed_exclusion_filter":   {"w2"},
	"deepspeed_config_file":        {"ds.json"},
	"zero_stage":                   {"2", "3", "2", "x"},
	"gpu_ids":                      {"all", "0,1", "0"},
	"rdzv_backend":                 {"static", "c10d"},
	"rdzv_conf":                    {"timeout=900"},
}

// accelerateFlags lists options without values.
var accelerateFlags = []string{"use_deepspeed", "use_deepspeed", "use_deepspeed", "multi_gpu", "use_fsdp", "same_network", "module", "no_python", "cpu", "debug", "quiet"}

func (d dealer) accelerate() accelerateCommand {
	var c accelerateCommand
	c.Argv = []string{}
	if d.once(2) {
		c.Config = d.accelerateConfig()
		c.Argv = append(c.Argv, "--config_file", "config.yaml")
	}
	for _, name := range []string{"num_processes", "num_machines", "machine_rank", "main_process_ip", "deepspeed_hostfile"} {
		if !d.once(4) {
			c.Argv = append(c.Argv, d.accelerateOption(name)...)
		}
	}
	if !d.once(3) {
		c.Argv = append(c.Argv, "--use_deepspeed")
	}
	for range d.IntN(3) {
		c.Argv = append(c.Argv, d.accelerateOption(pick(d.Rand, slices.Sorted(maps.Keys(accelerateValues))...))...)
	}
	if d.once(5) {
		c.Argv = append(c.Argv, "--"+pick(d.Rand, accelerateFlags...))
	}
	if d.once(30) {
		c.Argv = append(c.Argv, pick(d.Rand, "--nope", "--", "-q", "-m", "-h", "--num", "--use-deepspeed", "-qm"))
	}
	if !d.once(40) {
		c.Argv = append(c.Argv, "train.py")
	}
	for range max(0, d.IntN(5)-2) {
		// If accelerate becomes torchrun, these first arguments make it fail.
		if argument := d.argument(); argument != "-" && argument != "" {
			c.Argv = append(c.Argv, argument)
		}
	}
	return c
}

func (d dealer) accelerateOption(name string) []string {
	values := accelerateValues[name]
	if !d.once(6) {
		values = values[:min(len(values), 3)]
	}
	if d.once(4) {
		name = strings.ReplaceAll(name, "_", "-")
	}
	if d.once(3) {
		return []string{"--" + name + "=" + pick(d.Rand, values...)}
	}
	return []string{"--" + name, pick(d.Rand, values...)}
}

// accelerateConfig returns a configuration file in the form that `accelerate config` writes, or
// with small mistakes.
func (d dealer) accelerateConfig() string {
	var text strings.Builder
	fmt.Fprintf(&text, "compute_environment: LOCAL_MACHINE\ndistributed_type: %s\n", pick(d.Rand, "DEEPSPEED", "DEEPSPEED", "MULTI_GPU", "FSDP", "'NO'"))
	for _, name := range []string{"num_processes", "num_machines", "machine_rank", "main_process_ip", "main_process_port"} {
		if !d.once(5) {
			fmt.Fprintf(&text, "%s: %s\n", name, pick(d.Rand, accelerateValues[name][:2]...))
		}
	}
	for _, line := range []string{"same_network: true", "same_network: false", "rdzv_backend: c10d", "gpu_ids: all", "use_cpu: false", "mixed_precision: 'no'", "main_training_function: main", "debug: false", "nonsense: 1"} {
		if d.once(8) {
			text.WriteString(line + "\n")
		}
	}
	if d.once(2) {
		text.WriteString("deepspeed_config:\n  zero_stage: 2\n")
		for _, name := range []string{"deepspeed_hostfile", "deepspeed_multinode_launcher", "deepspeed_inclusion_filter", "deepspeed_config_file"} {
			if d.once(2) {
				fmt.Fprintf(&text, "  %s: %s\n", name, strings.ReplaceAll(pick(d.Rand, accelerateValues[name]...), "@", "_"))
			}
		}
	}
	return text.String()
}
