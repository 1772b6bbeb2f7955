// SPDX-License-Identifier: Apache-2.0

//go:build oracle

package oracle_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"preflight/launch"
	"preflight/launch/args"
)

// torchrunCommand is a `torchrun …` command with the variables that replace options.
type torchrunCommand struct {
	Argv []string          `json:"argv"`
	Env  map[string]string `json:"env"`
}

// torchrunOutcome is the result of a torchrunCommand.
type torchrunOutcome struct {
	Refused string          `json:"refused"`
	Parsed  *torchrunParsed `json:"parsed"`
}

type torchrunParsed struct {
	Nodes     [2]int   `json:"nodes"`
	PerNode   string   `json:"per_node"`
	Backend   string   `json:"backend"`
	Endpoint  string   `json:"endpoint"`
	NodeRank  int      `json:"node_rank"`
	Module    bool     `json:"module"`
	NoPython  bool     `json:"no_python"`
	Script    string   `json:"script"`
	Arguments []string `json:"arguments"`
}

// TestTorchrunArgs lets real releases of torchrun and preflight read the same commands.
func TestTorchrunArgs(t *testing.T) {
	t.Parallel()
	seed := seed(t)
	for _, r := range releases()[1:] {
		t.Run(r.name, func(t *testing.T) {
			newest := r.name == "2.15"
			d := torchrunDealer{dealer{Rand: rand.New(rand.NewPCG(seed, 215))}, newest}
			var commands []torchrunCommand
			for range 2000 {
				commands = append(commands, d.deal())
			}
			version, all := answers[torchrunOutcome](t, commands, "env", "-i", "LC_ALL=C.UTF-8", r.python, "-W", "ignore", "torchrun_args.py")
			accepted, disputes := 0, disputes{}
			for i, c := range commands {
				want, got := all[i], readTorchrun(c)
				if want.Parsed != nil {
					accepted++
				}
				if kind, diff := differTorchrun(want, got, newest); kind != "" {
					disputes.add(kind, command{Argv: c.Argv, Env: c.Env}, diff)
				}
			}
			t.Logf("torch %s: %d commands, %d of them accepted", version, len(commands), accepted)
			for _, dispute := range disputes.sorted() {
				t.Error(dispute)
			}
			if accepted < len(commands)/4 || accepted > len(commands)*4/5 {
				t.Error("that is not what the commands are meant to be")
			}
		})
	}
}

// differTorchrun returns the kind of difference between two outcomes, and the difference. It
// compares errors with the words of the newest release.
func differTorchrun(want, got torchrunOutcome, newest bool) (kind, diff string) {
	refusals := fmt.Sprintf("-want %s\n+got  %s", want.Refused, got.Refused)
	switch {
	case (want.Refused == "") != (got.Refused == ""):
		return "refused: " + want.Refused + " / " + got.Refused, refusals
	case newest && want.Refused != "exit 0" && want.Refused != got.Refused:
		return "words: " + want.Refused + " / " + got.Refused, refusals
	case want.Refused != "":
		return "", ""
	}
	if want.Parsed.Nodes == [2]int{1, 1} { // a single node meets itself, and the settings for this depend on the release
		want.Parsed.Backend, want.Parsed.Endpoint = got.Parsed.Backend, got.Parsed.Endpoint
	}
	if equal(want.Parsed, got.Parsed) {
		return "", ""
	}
	return difference("parsed", want.Parsed, got.Parsed)
}

func readTorchrun(c torchrunCommand) torchrunOutcome {
	around := args.Surroundings{Getenv: func(name string) string { return c.Env[name] }}
	typed, err := args.Parse(append([]string{"torchrun"}, c.Argv...), "", around)
	if err != nil {
		return torchrunOutcome{Refused: deepspeedMessage(err)}
	}
	endpoint := typed.RdzvEndpoint
	if typed.Rendezvous == launch.RendezvousStatic && endpoint == "" {
		endpoint = fmt.Sprintf("%s:%d", cmp.Or(typed.MasterAddr, "127.0.0.1"), cmp.Or(typed.MasterPort, launch.DefaultMasterPort))
	}
	return torchrunOutcome{Parsed: &torchrunParsed{
		Nodes: [2]int{typed.MinNodes, typed.MaxNodes}, PerNode: typed.PerNode, Backend: typed.Rendezvous, Endpoint: endpoint, NodeRank: typed.NodeRank,
		Module: typed.Module, NoPython: typed.NoPython, Script: typed.Script, Arguments: typed.Arguments,
	}}
}

// torchrunDealer generates torchrun commands, with the options of the newest release or of all
// releases.
type torchrunDealer struct {
	dealer
	newest bool
}

// torchrunOptions maps options to values. Options without values are flags.
var torchrunOptions = map[string][]string{
	"nnodes":             {"1", "2", "4", "1:4", "2:2", "4:2", "0", "-1", "1:2:3", "x", "", ":", "1:", " 2 ", "1_0"},
	"nproc-per-node":     {"1", "8", "auto", "gpu", "cpu", "04", "npu", "", "1.5", " 2", "GPU"},
	"rdzv-backend":       {"c10d", "static", "etcd", "etcd-v2", "C10D", ""},
	"rdzv-endpoint":      {"w1:29500", "w1", "[fd00::1]:29500", "", "localhost:0"},
	"rdzv-id":            {"job", "1"},
	"rdzv-conf":          {"timeout=900", "a=1,b=2", "a", "a=", "=1", "", " ", "a=b=c", ",", "a=1,"},
	"max-restarts":       {"0", "3", "-1", "x"},
	"monitor-interval":   {"1", "0.5", "1e-1", "x", "inf", "nan", "", "1_0.5", ".5", "5.", "0x1"},
	"start-method":       {"spawn", "fork", "thread"},
	"role":               {"trainer"},
	"log-dir":            {"logs"},
	"redirects":          {"3", "0:1,1:2"},
	"tee":                {"3"},
	"local-ranks-filter": {"0", "0,1"},
	"node-rank":          {"0", "1", "-1", "x"},
	"master-addr":        {"w1", "10.0.0.1", "fd00::1"},
	"master-port":        {"29501", "x", "-1", ""},
	"local-addr":         {"10.0.0.2"},
	"standalone":         nil,
	"module":             nil,
	"no-python":          nil,
	"run-path":           nil,
}

// newestTorchrunOptions holds the options that were added after 2.4.
var newestTorchrunOptions = map[string][]string{
	"event-log-handler":        {"null"},
	"log-line-prefix-template": {"${rank}"},
	"numa-binding":             {"node", "socket", "numa"},
	"signals-to-handle":        {"SIGTERM"},
	"shutdown-timeout":         {"30", "x"},
	"virtual-local-rank":       nil,
	"nproc-per-node":           {"xpu"},
	"duplicate-stdout-filters": {"a,b"},
}

func (d torchrunDealer) deal() torchrunCommand {
	c := torchrunCommand{Argv: []string{}, Env: map[string]string{}}
	for range d.IntN(4) {
		c.Argv = append(c.Argv, d.option()...)
	}
	if d.once(20) {
		c.Argv = slices.Insert(c.Argv, d.IntN(len(c.Argv)+1), pick(d.Rand, "--", "-", "-h", "--help", "--nope", "-m", "-r", "-t3", "-r=3", "-rt", "-mr3", "--n", "--rdzv", "--rdzv_", "--m", "-1", "--=", ""))
	}
	if !d.once(30) {
		c.Argv = append(c.Argv, pick(d.Rand, "train.py", "train.py", "pkg.train", "-"))
	}
	for range max(0, d.IntN(6)-3) {
		c.Argv = append(c.Argv, d.argument())
	}
	if d.once(3) {
		name := d.name()
		value := pick(d.Rand, "1", "0", "x")
		if values := d.values(name); values != nil {
			value = pick(d.Rand, values...)
		}
		if value != "" { // Getenv does not distinguish "" from a missing variable
			c.Env["PET_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))] = value
		}
	}
	return c
}

// name returns the name of a random option.
func (d torchrunDealer) name() string {
	if d.newest && d.once(8) {
		return pick(d.Rand, slices.Sorted(maps.Keys(newestTorchrunOptions))...)
	}
	return pick(d.Rand, slices.Sorted(maps.Keys(torchrunOptions))...)
}

func (d torchrunDealer) values(name string) []string {
	if !d.newest {
		return torchrunOptions[name]
	}
	return slices.Concat(torchrunOptions[name], newestTorchrunOptions[name])
}

func (d torchrunDealer) option() []string {
	name := d.name()
	values := d.values(name)
	if d.once(2) {
		name = strings.ReplaceAll(name, "-", "_")
	}
	if d.newest && d.once(20) { // older releases have fewer options, so other abbreviations are ambiguous
		name = name[:1+d.IntN(len(name))]
	}
	if values == nil {
		return []string{"--" + name + pick(d.Rand, "", "", "", "", "", "", "", "", "", "", "=1")}
	}
	if !d.once(3) {
		values = values[:min(len(values), 3)] // keep only the valid values
	}
	if d.once(2) {
		return []string{"--" + name + "=" + pick(d.Rand, values...)}
	}
	return []string{"--" + name, pick(d.Rand, values...)}
}
