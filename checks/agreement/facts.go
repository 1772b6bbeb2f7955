// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/names"
	"preflight/facts"
	"preflight/internal/text"
)

// knownFacts are the facts that nodes tell, each with what matches its paths.
var knownFacts = sync.OnceValue(func() []knownFact {
	return text.Map(facts.Described(), func(d facts.Description) knownFact { return knownFact{d, PathPattern(d.Path, ".+")} })
})

type knownFact struct {
	facts.Description
	path *regexp.Regexp
}

func factAt(path string) (facts.Description, error) {
	for _, known := range knownFacts() {
		if known.path.MatchString(path) {
			return known.Description, nil
		}
	}
	return facts.Description{}, unknownFact(path)
}

// PathPattern matches the paths that one with "*" in it stands for.
func PathPattern(path, star string) *regexp.Regexp {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(path), `\*`, star) + "$")
}

// unknownFact names the fact that was likely meant: one with the same last word
// ("gpu.driver" for nvml.driver) before one that is spelt alike.
func unknownFact(path string) error {
	if path == string(facts.SectionSmoke) || strings.HasPrefix(path, string(facts.SectionSmoke)+".") {
		return &UnknownFactError{fmt.Sprintf("%q belongs to one run: set minimum rates for --smoke with compute_rate, copy_rate, node_reduce_rate and reduce_rate", path)}
	}
	if slices.ContainsFunc(OwnFacts(), func(own string) bool { return patternsMeet(path, own) }) {
		return &UnknownFactError{fmt.Sprintf("%q differs on every node, so an expectation cannot state it: --baseline compares each node with its earlier value", path)}
	}
	paths, namesakes := slices.Collect(maps.Keys(shorthands)), []string{}
	last := path[strings.LastIndexByte(path, '.')+1:]
	for _, d := range knownFacts() {
		paths = append(paths, d.Path)
		if strings.HasSuffix(d.Path, "."+last) {
			namesakes = append(namesakes, d.Path)
		}
	}
	near := cmp.Or(text.Nearest(path, namesakes, len(path)), text.Meant(path, paths))
	return &UnknownFactError{fmt.Sprintf("there is no fact %q to compare%s", path, cmp.Or(text.DidYouMean(near), ": preflight facts lists them"))}
}

// UnknownFactError says that no node can tell such a fact, and which is near.
type UnknownFactError struct{ message string }

func (e *UnknownFactError) Error() string { return e.message }

// peersMTU is the MTU of the interface that leads to the other nodes, whatever its
// name there: "net.interfaces.*.mtu" would be that of lo and docker0 too.
const peersMTU = "net.mtu"

// shorthands are the names by which teams know facts that nodes tell by longer ones.
var shorthands = map[string]string{
	"gpu.driver": "nvml.driver",
	peersMTU:     "net.interfaces.*.mtu",
}

// Stateable are the facts that an expectation can name, sorted, the short names among them.
func Stateable() []facts.Description {
	all := facts.Described()
	for short := range shorthands {
		about, err := factAt(InFull(short))
		if err != nil {
			panic("checks: " + err.Error()) // it is short for nothing
		}
		about.Path = short
		all = append(all, about)
	}
	slices.SortFunc(all, func(a, b facts.Description) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// InFull is the path of a fact that may have been named in short, or a package by another
// spelling than the one that nodes tell: PyYAML is pyyaml, nvidia_nccl_cu12 nvidia-nccl-cu12.
// Source: PEP 503, normalized names.
func InFull(fact string) string {
	if name, isPackage := strings.CutPrefix(fact, compare.PackagePath("")); isPackage {
		return compare.PackagePath(strings.ToLower(separators.ReplaceAllString(name, "-")))
	}
	return cmp.Or(shorthands[fact], fact)
}

var separators = regexp.MustCompile(`[-_.]+`)

func (s *statement) values(node *facts.Node, section facts.Section) map[string]string {
	values := map[string]string{}
	if s.Fact == peersMTU {
		if name, mtu := mtuToPeers(node); mtu != "" {
			values["net.interfaces."+name+".mtu"] = mtu
		}
		return values
	}
	node.EachComparable(section, func(path, value string) {
		if s.path.MatchString(path) {
			values[path] = value
		}
	})
	return values
}

// mtuToPeers is the interface that leads to the other nodes and its MTU, "" where
// it is not known which does.
func mtuToPeers(node *facts.Node) (name, mtu string) {
	name = names.PeerInterface(node)
	for _, i := range node.Net.Interfaces {
		if i.Name == name {
			return name, strconv.Itoa(i.MTU)
		}
	}
	return name, ""
}

// isFact is whether nodes may tell a fact by such a path, which may have "*" in it for any
// text.
func isFact(path string) bool {
	return slices.ContainsFunc(knownFacts(), func(known knownFact) bool { return patternsMeet(path, known.Path) })
}

// entryName is the name of an entry, that of a VLAN ("eth0.100") among them.
var entryName = regexp.MustCompile(`^[^.]+(\.\d+)*$`)

// isOfDrift is whether drift may tell of such a path beside those of isFact: that of a fact
// that is a node's own, or of an entry that came or went as a whole, "net.interfaces.eth1".
func isOfDrift(path string) bool {
	return slices.ContainsFunc(OwnFacts(), func(own string) bool { return patternsMeet(path, own) }) ||
		slices.ContainsFunc(knownFacts(), func(known knownFact) bool {
			list, _, ofEntries := strings.Cut(known.Path, "*.")
			name, within := strings.CutPrefix(path, list)
			return ofEntries && within && entryName.MatchString(name)
		})
}

// patternsMeet is whether some text is as both patterns have it, in which "*" is any text.
func patternsMeet(a, b string) bool {
	rest := make([][]bool, len(a)+1) // whether what follows i of a and j of b meets
	for i := len(a); i >= 0; i-- {
		rest[i] = make([]bool, len(b)+1)
		for j := len(b); j >= 0; j-- {
			inA, inB := i < len(a), j < len(b)
			switch {
			case !inA && !inB:
				rest[i][j] = true
			case inA && a[i] == '*':
				rest[i][j] = rest[i+1][j] || inB && rest[i][j+1]
			case inB && b[j] == '*':
				rest[i][j] = rest[i][j+1] || inA && rest[i+1][j]
			default:
				rest[i][j] = inA && inB && a[i] == b[j] && rest[i+1][j+1]
			}
		}
	}
	return rest[0][0]
}

// ValidWaiver says why a waiver covers nothing, or more than anybody can have meant: there is
// no such fact ([UnknownFactError]), or it is of a check whose findings are of one fact
// each and does not say of which. A promise about an MTU must not cover another driver.
func ValidWaiver(w checks.Waiver) error {
	ofFacts := w.Check == checks.ExpectationID || w.Check == checks.DriftID
	switch {
	case w.Check == checks.PolicyID:
		return fmt.Errorf("%s checks the waivers itself and cannot be waived: repair what it finds", w.Check)
	case !ofFacts && w.Fact != "":
		return fmt.Errorf("only findings of %[2]s and %[3]s name a fact, not those of %[1]s", w.Check, checks.ExpectationID, checks.DriftID)
	case !ofFacts, w.Fact == everyFact:
		return nil
	case w.Fact == "":
		return fmt.Errorf("a waiver of %s must name a fact: add fact: shm.size, or fact: \"%s\" for all of them", w.Check, everyFact)
	}
	path := InFull(w.Fact)
	if isFact(path) || w.Check == checks.DriftID && isOfDrift(path) {
		return nil
	}
	return unknownFact(path)
}

// everyFact is the fact of a waiver that is to cover whatever such a check finds.
const everyFact = "*"
