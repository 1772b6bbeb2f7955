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
	"preflight/launch"
)

// knownFacts returns the facts that nodes report, each with a pattern that matches its paths.
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

// PathPattern returns a pattern that matches the paths for which a path with "*" stands.
func PathPattern(path, star string) *regexp.Regexp {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(path), `\*`, star) + "$")
}

// unknownFact returns the error for a fact that does not exist. The error suggests a fact with the
// same last word ("gpu.driver" for nvml.driver) or, if there is none, a fact with a similar
// spelling.
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

// UnknownFactError says that nodes do not report a fact. Its message suggests a similar fact.
type UnknownFactError struct{ message string }

func (e *UnknownFactError) Error() string { return e.message }

// peersMTU is the fact with the MTU of the interface to the other nodes. It does not contain the
// interface's name. "net.interfaces.*.mtu" would include lo and docker0.
const peersMTU = "net.mtu"

// shorthands maps short names of facts to their paths.
var shorthands = map[string]string{
	"gpu.driver": "nvml.driver",
	peersMTU:     "net.interfaces.*.mtu",
}

// Stateable returns the facts that an expectation can name, including the short names. The result
// is sorted.
func Stateable() []facts.Description {
	all := facts.Described()
	for short := range shorthands {
		about, err := factAt(InFull(short))
		if err != nil {
			panic("checks: " + err.Error()) // the short name stands for no fact
		}
		about.Path = short
		all = append(all, about)
	}
	slices.SortFunc(all, func(a, b facts.Description) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// InFull returns the path for the short name of a fact. It also returns the path for another
// spelling of a package's name: pyyaml for PyYAML, nvidia-nccl-cu12 for nvidia_nccl_cu12.
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

// mtuToPeers returns the interface that leads to the other nodes, and the MTU of that interface.
// Unknown values are "".
func mtuToPeers(node *facts.Node) (name, mtu string) {
	name = names.PeerInterface(node)
	for _, i := range node.Net.Interfaces {
		if i.Name == name {
			return name, strconv.Itoa(i.MTU)
		}
	}
	return name, ""
}

// isFact reports whether nodes may report a fact with this path. "*" in the path stands for any
// text.
func isFact(path string) bool {
	return slices.ContainsFunc(knownFacts(), func(known knownFact) bool { return patternsMeet(path, known.Path) })
}

// entryName matches the name of a list entry, including VLANs such as "eth0.100".
var entryName = regexp.MustCompile(`^[^.]+(\.\d+)*$`)

// isOfDrift reports whether drift may report this path although isFact does not accept it. The path
// is a fact that naturally differs between nodes, or an entry that appeared or disappeared as a
// whole, such as "net.interfaces.eth1".
func isOfDrift(path string) bool {
	return slices.ContainsFunc(OwnFacts(), func(own string) bool { return patternsMeet(path, own) }) ||
		slices.ContainsFunc(knownFacts(), func(known knownFact) bool {
			list, _, ofEntries := strings.Cut(known.Path, "*.")
			name, within := strings.CutPrefix(path, list)
			return ofEntries && within && entryName.MatchString(name)
		})
}

// patternsMeet reports whether at least one text matches both patterns. "*" in a pattern stands for
// any text.
func patternsMeet(a, b string) bool {
	rest := make([][]bool, len(a)+1) // rest[i][j]: whether a[i:] and b[j:] meet
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

// ValidWaiver returns the reason why a waiver is invalid, or nil if it is valid. A waiver is
// invalid if its fact does not exist ([UnknownFactError]), or if its check reports single facts and
// the waiver names none. A waiver for an MTU must not cover another driver.
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

// everyFact is the fact of a waiver that covers all findings of a check that reports single facts.
const everyFact = "*"

// LeftOut is the reason why a check does not run on a normalized snapshot.
const LeftOut = "a normalized snapshot leaves out the facts that this check needs"

// Lasting returns a catalogue for normalized snapshots. Its checks do not use facts that such
// snapshots leave out.
func Lasting(catalogue []checks.Check) []checks.Check {
	judged := slices.Clone(catalogue)
	for i := range judged {
		check := &judged[i]
		lasting := slices.DeleteFunc(slices.Clone(check.Needs), func(s facts.Section) bool { return isGone(check, s) })
		if len(lasting) < len(check.Needs) {
			check.Needs = lasting // the check is still skipped if the run did not collect one of these sections
			check.Run = func(checks.View) []checks.Finding { return nil }
			check.Undecided = LeftOut
		}
		if check.Volatile {
			check.Undecided = LeftOut
		}
	}
	return judged
}

// Lasts reports whether a normalized snapshot contains any of the facts that a check needs.
func Lasts(check checks.Check) bool {
	return check.FromPolicy || slices.ContainsFunc(check.Needs, func(s facts.Section) bool { return !isGone(&check, s) })
}

func isGone(c *checks.Check, s facts.Section) bool {
	return slices.Contains(facts.Momentary, s) || c.OnHead && s != facts.SectionLauncher
}

// LastingLaunch returns a launch without the fields that depend on the shell and the directory in
// which the user typed the command.
func LastingLaunch(p launch.Prediction) launch.Prediction {
	p.WorkDir, p.Exports, p.Command, p.CommandEnv = "", nil, nil, nil
	p.Script, p.Arguments, p.Files, p.Places, p.Models, p.Config, p.NodeLocal = "", nil, nil, nil, nil, nil, false
	return p
}

// LastingFleet returns a fleet from a normalized snapshot in the form that the checks expect. Its
// nodes are in the order of the launch, not in the order of the file. The sections of
// facts.Momentary are marked as not collected.
func LastingFleet(fleet facts.Fleet, prediction launch.Prediction) facts.Fleet {
	place := map[string]int{}
	for i, host := range prediction.Hosts {
		place[host.Name] = i
	}
	fleet.Nodes = slices.Clone(fleet.Nodes)
	slices.SortStableFunc(fleet.Nodes, func(a, b facts.Node) int { return place[a.Name] - place[b.Name] })
	notTried := map[facts.Section]string{}
	maps.Copy(notTried, fleet.NotTried)
	for _, section := range facts.Momentary {
		notTried[section] = LeftOut
	}
	fleet.NotTried = notTried
	return fleet
}

// Uncompared is a set of facts that a saved run records, but that preflight never compares with the
// same node's earlier values.
type Uncompared struct{ Facts, Why string }

// NeverCompared lists facts that naturally differ between nodes and whose changes mean nothing. All
// other facts are compared.
var NeverCompared = []Uncompared{
	{"env.nccl.*.source", "the value is compared, wherever it is set"},
	{"env.vars.*.source", "the value is compared, wherever it is set"},
	{"gpu.driver", "gpu.devices and nvml.cards describe the same GPUs, and the firmware numbers the bus"},
	{"gpu.on_bus", "gpu.devices and nvml.cards describe the same GPUs, and the firmware numbers the bus"},
	{"gpu.xids_unread", "it says only that the account could not read the log"},
	{"ib.devices.*.path", "the firmware numbers the bus"},
	{"ib.devices.*.ports.*.gids", "derived from guid and addresses, which are compared"},
	{"ib.devices.*.ports.*.lid", "assigned again by the subnet manager"},
	{"ib.devices.*.verbs", "numbered at boot"},
	{"net.routes", "they follow the interfaces, which are compared; node-mesh tests where they lead"},
	{"nvml.cards.*.address", "the firmware numbers the bus; uuid identifies a GPU"},
	{"nvml.cards.*.failure.call", "failure.kind is compared"},
	{"nvml.cards.*.failure.code", "failure.kind is compared"},
	{"nvml.cards.*.failure.text", "failure.kind is compared"},
	{"nvml.cards.*.minor", "numbered when the driver is loaded"},
	{"nvml.cards.*.nvlinks.remotes", "the firmware numbers the bus"},
	{"nvml.cards.*.serial", "uuid identifies a GPU"},
	{"nvml.failure.call", "failure.kind is compared"},
	{"nvml.failure.code", "failure.kind is compared"},
	{"nvml.failure.text", "failure.kind is compared"},
	{"nvml.hidden", "nvml.cards lists what a session sees"},
	{"nvml.unshown", "nvml.cards lists what a session sees"},
	{"python.unfound", "python.packages is compared, and the list of modules follows the script"},
	{"ssh.cause", "whether a node is reached, and why not, is compared as such"},
	{"ssh.detail.*", "whether a node is reached, and why not, is compared as such"},
	{"ssh.message", "whether a node is reached, and why not, is compared as such"},
	{"ssh.openssh", "it follows the ssh configuration of the user who launches"},
	{"ssh.stage", "whether a node is reached, and why not, is compared as such"},
	{"ssh.user", "host.user is compared"},
	{"toolchain.lock", "a running build holds it"},
}

// leftOut returns the patterns of NeverCompared by section. A single pattern for all sections would
// dominate the time of a comparison.
var leftOut = sync.OnceValue(func() map[string]*regexp.Regexp {
	bySection := map[string][]string{}
	for _, left := range NeverCompared {
		section, _, _ := strings.Cut(left.Facts, ".")
		bySection[section] = append(bySection[section], PathPattern(left.Facts, ".+").String())
	}
	patterns := map[string]*regexp.Regexp{}
	for section, any := range bySection {
		patterns[section] = regexp.MustCompile(strings.Join(any, "|"))
	}
	return patterns
})

func isLeftOut(path string) bool {
	section, _, _ := strings.Cut(path, ".")
	pattern := leftOut()[section]
	return pattern != nil && pattern.MatchString(path)
}

// OwnFacts returns the facts that naturally differ between nodes and that preflight compares with
// the same node's earlier values.
var OwnFacts = sync.OnceValue(func() (paths []string) {
	for _, d := range facts.DescribedOwn() {
		if !isLeftOut(d.Path) {
			paths = append(paths, d.Path)
		}
	}
	return paths
})
