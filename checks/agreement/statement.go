// SPDX-License-Identifier: Apache-2.0

// Package agreement holds a fleet to what a team has stated (the expectations of a policy) or
// recorded (a baseline).
//
// It refuses to judge what a launch needs, which is the families' to say, and to pass what
// nobody was to look at: that is left out, and said.
package agreement

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/facts"
	"preflight/hostfile"
)

type statement struct {
	checks.Expectation
	about    facts.Description
	path     *regexp.Regexp  // the paths it is about
	only     map[string]bool // nodes it is stated of, empty for all
	allowed  []constraint
	met      bool // by some node
	missed   []miss
	sight    checks.Sight
	unclear  []checks.Finding
	notTried string // why nobody was to look at what it is about, "" where somebody was
}

// miss is a node that is not as stated. Its fact is the one path that is not, as it is
// stated where several are.
type miss struct{ node, fact, got string }

// ValidExpectation says why an expectation cannot be held against anything: there is no such
// fact ([UnknownFactError]), or no value can be as stated. It does not name the place.
func ValidExpectation(e checks.Expectation) error {
	_, err := readExpectation(e)
	return err
}

func readExpectation(e checks.Expectation) (statement, error) {
	path := InFull(e.Fact)
	s := statement{Expectation: e, path: PathPattern(path, ".*"), only: map[string]bool{}}
	for _, node := range e.Nodes {
		s.only[node] = true
	}
	about, err := factAt(path)
	if err != nil {
		return s, err
	}
	s.about = about
	if len(e.Is) == 0 {
		return s, errors.New("it does not state the expected value")
	}
	for _, text := range e.Is {
		c, err := readConstraint(text, s.about)
		if err != nil {
			return s, err
		}
		s.allowed = append(s.allowed, c)
	}
	return s, nil
}

func (s *statement) names(node string) bool {
	return len(s.only) == 0 || s.only[node] || s.only[hostfile.Bare(node)]
}

func (s *statement) wanted() string {
	text := s.Fact + " " + spaced(strings.Join(s.Is, " or "))
	if s.At != "" {
		text += " (" + s.At + ")"
	}
	return text
}

// spaced has a blank behind each operator and before each unit, as everything else that is wanted.
func spaced(values string) string {
	return tightUnit.ReplaceAllString(tightOperator.ReplaceAllString(values, "$1 $2"), "$1 $2")
}

var (
	tightOperator = regexp.MustCompile(`([<>=!~]=|[<>])([^\s=])`)
	tightUnit     = regexp.MustCompile(`(\d)((?:[KMGTP]i?)?B|[kMGT]?bit/s)\b`)
)

// Held are the expectations of a policy, held against a fleet.
type Held struct{ statements []statement }

// HeldKey is theirs in the Memory of an evaluation.
type HeldKey struct{}

// Hold holds all expectations against the fleet, see being what a check can judge of it.
func Hold(fleet facts.Fleet, policy checks.Policy, see func(checks.Check) checks.Sight) *Held {
	all := &Held{}
	seen := map[facts.Section]sectionSight{}
	for _, e := range policy.Expect {
		s, err := readExpectation(e)
		section := compare.SectionOf(s.about.Path)
		reason, rightly := fleet.NotTried[section]
		switch {
		case err != nil:
			s.unclear = []checks.Finding{{Verdict: checks.Unknown, Summary: fmt.Sprintf("%s: %v", e.At, err)}}
		case rightly:
			s.notTried = reason
		default:
			if seen[section].section == "" {
				seen[section] = look(see, section)
			}
			s.hold(seen[section])
		}
		all.statements = append(all.statements, s)
	}
	return all
}

// sectionSight is what the fleet shows of one section. Most nodes look like one of a few,
// and finding out which costs more than all that is then held against those.
type sectionSight struct {
	section facts.Section
	checks.Sight
	kinds compare.Kinds
}

func look(see func(checks.Check) checks.Sight, section facts.Section) sectionSight {
	sight := see(checks.Check{ID: checks.ExpectationID, Needs: []facts.Section{section}})
	return sectionSight{section, sight, compare.KindsOf(sight.Nodes, section)}
}

// hold looks at one node of each kind.
func (s *statement) hold(seen sectionSight) {
	isOther := func(node string) bool { return !s.names(node) }
	s.sight.Failed = compare.Without(seen.Failed, isOther)
	s.sight.Unreached = compare.Without(seen.Unreached, isOther)
	s.sight.Unknown = compare.Without(seen.Unknown, func(f checks.Finding) bool { return isOther(f.Nodes[0]) })
	holdings := make([]holding, len(seen.kinds.First))
	for _, node := range seen.Nodes {
		if !s.names(node.Name) {
			continue
		}
		at := &holdings[seen.kinds.Of(node)]
		if at.verdict == "" || s.Fact == peersMTU { // which interface it is, is each node's own
			*at = s.judge(node, seen.section)
		}
		switch at.verdict {
		case checks.Pass:
			s.met = true
		case checks.Unknown:
			s.unclear = append(s.unclear, checks.Finding{Verdict: checks.Unknown, Explained: at.explained, Nodes: []string{node.Name}, Summary: at.reason})
		default:
			s.missed = append(s.missed, miss{node.Name, at.fact, at.reason})
		}
	}
}

type holding struct {
	verdict   checks.Verdict // Pass, Fail or Unknown
	fact      string         // that is not as stated, as it is stated where several are
	reason    string         // what is there instead, or why that cannot be told
	explained bool           // of an unknown: another check says why
}

// judge holds it against one node: every value of the fact must be allowed, and
// there must be one unless "absent" is.
func (s *statement) judge(node *facts.Node, section facts.Section) holding {
	values := s.values(node, section)
	if full := InFull(s.Fact); len(values) == 0 || values[full] == `""` {
		if reason := notSeen(node, section); reason != "" {
			return holding{verdict: checks.Unknown, reason: reason, explained: true}
		}
		if s.Fact == peersMTU {
			return holding{verdict: checks.Unknown, reason: "preflight does not know which interface leads to the other nodes"}
		}
		values[full] = ""
	}
	var wrong, unclear []string
	fact := ""
	for path, value := range values {
		text := path + " " + readable(value, s.about)
		switch allows, err := s.allows(value); {
		case err != nil:
			unclear = append(unclear, text+" "+err.Error())
		case !allows:
			wrong = append(wrong, text)
			fact = path
		}
	}
	if len(wrong) > 1 {
		fact = s.Fact
	}
	slices.Sort(wrong)
	slices.Sort(unclear)
	switch {
	case wrong != nil:
		return holding{verdict: checks.Fail, fact: fact, reason: strings.Join(wrong, ", ")}
	case unclear != nil:
		return holding{verdict: checks.Unknown, reason: strings.Join(unclear, ", ") + ", so preflight cannot compare it with " + s.wanted()}
	}
	return holding{verdict: checks.Pass}
}

// notSeen is why a section that was seen cannot tell what is there, "" where it can:
// what it lacks is not absent then, and the check that finds the cause says so.
func notSeen(node *facts.Node, section facts.Section) string {
	switch {
	case section == facts.SectionNVML && node.NVML.Failure != nil:
		return "the driver of some nodes fails: see gpu-driver-loads"
	case section == facts.SectionPython && (!node.Python.Found || node.Python.Problem != ""):
		return "no interpreter answered on some nodes: see python-same"
	}
	return ""
}

// allows is whether one of the alternatives takes a value. One that cannot be
// compared matters only where no other takes it.
func (s *statement) allows(value string) (bool, error) {
	var trouble error
	for _, c := range s.allowed {
		met, err := c.met(value, s.about)
		if met {
			return true, nil
		}
		trouble = errors.Join(trouble, err)
	}
	return false, trouble
}

// takes is whether a value as a comparison has it is allowed.
func (s *statement) takes(value string) bool {
	if s.about.Kind == facts.Text && value != "" {
		value = string(quoted(value))
	}
	allowed, err := s.allows(value)
	return err == nil && allowed
}

func readable(value string, about facts.Description) string {
	switch text := plainValue(about.Path, json.RawMessage(value)); {
	case about.Kind != facts.Number || about.Unit != "bytes":
		return text
	case strings.HasPrefix(text, "-") && canBeUnlimited(about.Path):
		return unlimitedWord
	default:
		if size, err := strconv.ParseInt(text, 10, 64); err == nil {
			return compare.Exactly(size)
		}
		return text
	}
}

func heldOf(view checks.View) *Held {
	return checks.Remember(view, HeldKey{}, func() *Held { return &Held{} })
}

// Of are the expectations of a fact, as a check that weighs so much compares nodes by it;
// none where they are switched off. Who misses one is left out of the comparison, unless that
// will not count, or not as much as what the check may find: a launch that will fail must not
// pass for one that was warned of, or whose defect is waived.
func (h *Held) Of(fact string, policy checks.Policy, weighs checks.Severity, waived func(checks.Finding, string) bool) (stated []checks.Stated) {
	if policy.SwitchesOff(checks.ExpectationID) {
		return nil
	}
	for i := range h.statements {
		s := &h.statements[i]
		if !s.path.MatchString(fact) {
			continue
		}
		one := checks.Stated{Of: s.names, Allows: s.takes, Missed: map[string]bool{}}
		stated = append(stated, one)
		if s.weight(policy) == checks.Warn && weighs == checks.Error {
			continue
		}
		for _, m := range s.missed {
			if !waived(checks.Finding{Check: checks.ExpectationID, Fact: m.fact}, m.node) {
				one.Missed[m.node] = true
			}
		}
	}
	return stated
}
