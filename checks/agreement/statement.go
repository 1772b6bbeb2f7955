// SPDX-License-Identifier: Apache-2.0

// Package agreement compares a fleet with the expectations of a policy, and with a baseline that a
// team has recorded.
//
// Other packages check the requirements of the launch itself. Facts that a run did not collect
// never pass: the result says that they were left out.
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
	path     *regexp.Regexp  // matches the paths of its facts
	only     map[string]bool // the nodes that it applies to, empty for all
	allowed  []constraint
	met      bool // at least one node meets it
	missed   []miss
	sight    checks.Sight
	unclear  []checks.Finding
	notTried string // why the run did not collect the section of the fact, "" if it did
}

// miss is a node that does not meet the expectation. fact is the path of the wrong fact, or the
// stated path if several facts are wrong.
type miss struct{ node, fact, got string }

// ValidExpectation returns the reason why an expectation is invalid, or nil if it is valid. An
// expectation is invalid if its fact does not exist ([UnknownFactError]), or if no value can meet
// it. The error does not name the place in the policy.
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

// spaced adds a space after each operator and before each unit, as in all other Want texts.
func spaced(values string) string {
	return tightUnit.ReplaceAllString(tightOperator.ReplaceAllString(values, "$1 $2"), "$1 $2")
}

var (
	tightOperator = regexp.MustCompile(`([<>=!~]=|[<>])([^\s=])`)
	tightUnit     = regexp.MustCompile(`(\d)((?:[KMGTP]i?)?B|[kMGT]?bit/s)\b`)
)

// Held holds the expectations of a policy with the results for a fleet.
type Held struct{ statements []statement }

// HeldKey is the key of Held in the Memory of an evaluation.
type HeldKey struct{}

// Hold compares the fleet with all expectations. see returns the nodes that a check can examine.
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

// sectionSight holds the contents of one section across the fleet. Most nodes have one of a few
// contents. Finding these contents costs more than all the comparisons that follow.
type sectionSight struct {
	section facts.Section
	checks.Sight
	kinds compare.Kinds
}

func look(see func(checks.Check) checks.Sight, section facts.Section) sectionSight {
	sight := see(checks.Check{ID: checks.ExpectationID, Needs: []facts.Section{section}})
	return sectionSight{section, sight, compare.KindsOf(sight.Nodes, section)}
}

// hold compares the expectation with one node of each kind.
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
		if at.verdict == "" || s.Fact == peersMTU { // for peersMTU, the interface differs between nodes
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
	fact      string         // the wrong fact, or the stated path if several facts are wrong
	reason    string         // the node's value, or why the verdict is unknown
	explained bool           // the verdict is unknown, and another check reports the cause
}

// judge compares one node with the expectation. Every value of the fact must be allowed. At least
// one value must exist, unless "absent" is allowed.
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

// notSeen returns the reason why a collected section does not show everything, or "" if it does.
// Facts that are missing from such a section are not absent, and another check reports the cause.
func notSeen(node *facts.Node, section facts.Section) string {
	switch {
	case section == facts.SectionNVML && node.NVML.Failure != nil:
		return "the driver of some nodes fails: see gpu-driver-loads"
	case section == facts.SectionPython && (!node.Python.Found || node.Python.Problem != ""):
		return "no interpreter answered on some nodes: see python-same"
	}
	return ""
}

// allows reports whether one of the alternatives allows a value. An alternative that cannot be
// compared matters only if no other alternative allows the value.
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

// takes reports whether a value is allowed. The value has the form that a comparison of nodes uses.
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

// Of returns the expectations for a fact in the form that a comparison with a severity needs. It
// returns none if the policy switches them off.
//
// Nodes that miss an expectation are left out of the comparison. They stay in it if the miss does
// not count, or counts less than a finding of the comparison. Otherwise a policy could reduce an
// error to a warning, or waive the error together with the miss.
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
		if s.about.Kind == facts.Number && len(s.allowed) > 0 {
			one.Least, _ = s.nearest()
		}
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
