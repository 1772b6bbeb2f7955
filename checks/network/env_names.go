// SPDX-License-Identifier: Apache-2.0

package network

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"preflight/checks"
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
