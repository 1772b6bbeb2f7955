// SPDX-License-Identifier: Apache-2.0

package network

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"preflight/checks"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/launch/nccl"
)

//go:embed env_names.yaml
var envNamesFile []byte

// envNames is the content of env_names.yaml. That file explains its tables.
type envNames struct {
	NCCLNumbers nameSet           `yaml:"nccl_numbers"`
	NCCLTexts   nameSet           `yaml:"nccl_texts"`
	Torch       nameSet           `yaml:"torch"`
	Integers    nameSet           `yaml:"torch_numbers"`
	Switches    nameSet           `yaml:"torch_switches"`
	Dead        map[string]string `yaml:"dead"`
	Renamed     nameSet           `yaml:"renamed"`
	MustAgree   nameSet           `yaml:"must_agree"`
	MayDiffer   nameSet           `yaml:"may_differ"`
}

type nameSet map[string]bool

// UnmarshalYAML reads a list of names.
func (s *nameSet) UnmarshalYAML(list *yaml.Node) error {
	*s = nameSet{}
	for _, name := range list.Content {
		if (*s)[name.Value] {
			return fmt.Errorf("line %d: %s is there twice", name.Line, name.Value)
		}
		(*s)[name.Value] = true
	}
	return nil
}

// tables returns the content of env_names.yaml.
var tables = sync.OnceValue(func() (all envNames) {
	decoder := yaml.NewDecoder(bytes.NewReader(envNamesFile))
	decoder.KnownFields(true)
	if err := decoder.Decode(&all); err != nil {
		panic("checks/network: " + err.Error())
	}
	return all
})

// wrongNames warns about variables that no library reads. These are names that libraries read only
// in the past, misspelt names, and names that torch 2.2 renamed.
func wrongNames(r envOfRanks) []checks.Finding {
	torchIsNew := r.node.Python != nil && r.node.Python.Torch != nil && !hostfile.Before(r.node.Python.Torch.Version, "2.2")
	var findings []checks.Finding
	for _, s := range r.set {
		name := s.Name
		instead, isDead := tables().Dead[name]
		switch {
		case isDead:
			f := r.finding(name, "no library reads "+name)
			f.Want = instead
			findings = append(findings, f)
		case tables().Renamed[name] && torchIsNew:
			f := r.finding(name, fmt.Sprintf("torch 2.2 renamed %s; it still reads the old name", name))
			f.Want = "TORCH_" + name
			f.WouldSee = fmt.Sprintf("Environment variable %s is deprecated; use TORCH_%s instead", name, name)
			findings = append(findings, f)
		case r.meant[name] != "":
			f := r.finding(name, fmt.Sprintf("no library reads %s: did you mean %s?", name, r.meant[name]))
			f.Want = r.meant[name]
			findings = append(findings, f)
		}
	}
	return findings
}

// findMisspelt finds the names that are probably misspelt. It runs once for all nodes.
func (r envOfRanks) findMisspelt() {
	for _, s := range r.set {
		name := s.Name
		known := tables()
		isKnown := known.NCCLNumbers[name] || known.NCCLTexts[name] || known.Torch[name] || known.Renamed[name]
		if _, seen := r.meant[name]; !seen && !isKnown {
			r.meant[name] = nearestName(name)
		}
	}
}

// nearestName returns the known name that a misspelt name probably stands for, or "" if no known
// name is near. An unknown name alone is not an error, because plugins read their own variables.
func nearestName(name string) string {
	const mostEdits = 2
	return text.Nearest(name, namesakes()[prefixOf(name)], mostEdits)
}

// namesakes maps each prefix to the known names that begin with it.
var namesakes = sync.OnceValue(func() map[string][]string {
	byPrefix := map[string][]string{}
	for _, table := range []nameSet{tables().NCCLNumbers, tables().NCCLTexts, tables().Torch} {
		for _, known := range slices.Sorted(maps.Keys(table)) {
			byPrefix[prefixOf(known)] = append(byPrefix[prefixOf(known)], known)
		}
	}
	return byPrefix
})

func prefixOf(name string) string {
	prefix, _, _ := strings.Cut(name, "_")
	return prefix
}

// wrongNumbers warns about text in variables from which NCCL reads a number. NCCL reads such text
// as 0, so NCCL_IB_DISABLE=true disables nothing.
func wrongNumbers(r envOfRanks) []checks.Finding {
	var findings []checks.Finding
	for _, s := range r.set {
		if _, isNumber := nccl.Number(s.Value); !tables().NCCLNumbers[s.Name] || isNumber {
			continue
		}
		f := r.finding(s.Name, fmt.Sprintf("%s must be a number: NCCL reads this text as 0", s.Name))
		f.Want = "a number, such as 1"
		findings = append(findings, f)
	}
	return findings
}

// grammar says which values a program accepts in a variable. Other values end the program.
type grammar struct {
	accepts        func(value string) bool
	want, wouldSee string
}

// listed accepts the listed values.
func listed(values ...string) grammar {
	return grammar{accepts: func(value string) bool { return slices.Contains(values, value) }, want: "one of " + strings.Join(values, ", ")}
}

var (
	wholeNumber = regexp.MustCompile(`^\s*[+-]?\d+(_\d+)*\s*$`) // as Python's int
	startNumber = regexp.MustCompile(`^\s*[+-]?\d`)             // as C++'s stoi
)

// grammarOf returns the grammar of a variable for programs that this launch runs. It returns false
// if any value does, or if no program reads the variable.
//
// Source: torch 2.15, torch/csrc/distributed/c10d/debug.cpp; deepspeed 0.19.8, constants.py and
// accelerator/real_accelerator.py.
func (r envOfRanks) grammarOf(name string) (g grammar, found bool) {
	script := ranks.ScriptAt(r.view.Launch, r.node)
	usesDeepSpeed := slices.Contains(r.view.Launch.Imports, "deepspeed") || script != nil && slices.Contains(script.Imports, "deepspeed")
	_, isExported := ranks.Exported(r.view, name)
	switch {
	case name == "TORCH_DISTRIBUTED_DEBUG":
		g = listed("OFF", "INFO", "DETAIL", "off", "info", "detail")
		g.wouldSee = "The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL."
	case name == "DEEPSPEED_TIMEOUT" && usesDeepSpeed && !isExported: // launcher-env reports an exported value
		g = grammar{accepts: wholeNumber.MatchString, want: "a whole number of minutes, such as 30"}
		g.wouldSee = "ValueError: invalid literal for int() with base 10: '" + r.value(name) + "'"
	case name == "DS_ACCELERATOR" && usesDeepSpeed:
		g = listed("cuda", "cpu", "xpu", "xpu.external", "npu", "mps", "hpu", "mlu", "sdaa", "supa", "klxpu")
		g.wouldSee = "ValueError: DS_ACCELERATOR must be one of […]. Value \"" + r.value(name) + "\" is not supported"
	case tables().Integers[name] && ranks.UsesNCCL(r.view):
		g = grammar{accepts: startNumber.MatchString, want: "a whole number"}
		g.wouldSee = "RuntimeError: Invalid value for environment variable: " + name
	case tables().Switches[name] && ranks.UsesNCCL(r.view):
		g = listed("1", "0", "true", "false", "yes", "no", "y", "n", "t", "f")
		inCapitals := g.accepts
		g.accepts = func(value string) bool { return inCapitals(strings.ToLower(value)) }
		g.wouldSee = "RuntimeError: Invalid value for environment variable: " + name
	default:
		return grammar{}, false
	}
	return g, true
}

// malformed fails for values that end every process that reads them.
func malformed(r envOfRanks) []checks.Finding {
	var findings []checks.Finding
	for _, s := range r.set {
		g, found := r.grammarOf(s.Name)
		if !found || g.accepts(s.Value) {
			continue
		}
		f := r.finding(s.Name, fmt.Sprintf("%s has a malformed value, which ends the ranks", s.Name))
		f.Verdict, f.Want, f.WouldSee = checks.Fail, g.want, g.wouldSee
		findings = append(findings, f)
	}
	return findings
}

// leftRank fails for the variables of another job with which deepspeed.init_distributed does not ask MPI
// for the rank.
//
// Source: deepspeed 0.19.8, comm/comm.py, init_distributed, required_env.
func leftRank(r envOfRanks) []checks.Finding {
	required := []string{"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK"}
	if !r.view.Launch.StartedBy().MPIDiscovery || slices.ContainsFunc(required, func(name string) bool { return r.value(name) == "" }) {
		return nil
	}
	f := r.finding("RANK", "RANK and MASTER_ADDR are set, so DeepSpeed does not ask MPI for its rank")
	f.Verdict, f.Want = checks.Fail, "none of "+text.List(required)+" in the session of a node"
	f.WouldSee = "ranks that wait at " + r.value("MASTER_ADDR") + " until their time is up"
	return []checks.Finding{f}
}

// standalone fails if a variable makes torchrun ignore the other nodes.
//
// Source: torch 2.15, torch/distributed/run.py, run, and argparse_util.py, check_env.
func standalone(r envOfRanks) []checks.Finding {
	value := r.value("PET_STANDALONE")
	if !r.view.Launch.Torchrun() || len(r.view.Launch.Hosts) < 2 || strings.Trim(value, "0") == "" {
		return nil
	}
	f := r.finding("PET_STANDALONE", "PET_STANDALONE makes torchrun train on this node alone")
	f.Verdict, f.Want, f.WouldSee = checks.Fail, "PET_STANDALONE unset", "the other nodes wait for this node until their time is up"
	return []checks.Finding{f}
}

// endsRanks reports whether a node has a malformed value of a variable.
func endsRanks(view checks.View, name string) bool {
	return slices.ContainsFunc(view.Nodes, func(node *facts.Node) bool {
		r := envOfRanks{view: view, node: node, vars: ranks.Env(view, node)}
		g, found := r.grammarOf(name)
		return found && r.value(name) != "" && !g.accepts(r.value(name))
	})
}
