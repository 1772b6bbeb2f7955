package checks

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
)

// Expectation is what the policy states of one fact.
type Expectation struct {
	// Fact is a path as the diff prints it, "nvml.driver"; a "*" in it stands for any
	// text, so that "net.interfaces.eth*.mtu" is the MTU of each such interface.
	Fact string
	// Is lists what is allowed, each a comparison (">=570.86", ">=2.4, <2.6"), a plain
	// value, or "absent". Versions are compared as versions, sizes and rates by their units.
	Is []string
	// Nodes are those it is stated of, with or without a user; none means all.
	Nodes    []string
	Severity Severity // Error where it says nothing
	Fix      string   // "" where it says nothing
	At       string   // where it is stated, "preflight.yaml:12"
}

// statement is an expectation that can be held against values.
type statement struct {
	Expectation
	about   facts.Description
	path    *regexp.Regexp  // the paths it is about
	only    map[string]bool // nodes it is stated of, empty for all
	allowed []constraint
	met     map[string]bool // nodes that are as stated
	missed  []miss
	blind   blindness
	unclear []Finding
}

// miss is a node that is not as stated.
type miss struct{ node, got string }

// Valid says why an expectation cannot be held against anything: there is no such
// fact ([UnknownFactError]), or no value can be as stated. It does not name the place.
func (e Expectation) Valid() error {
	_, err := e.read()
	return err
}

func (e Expectation) read() (statement, error) {
	s := statement{Expectation: e, path: pathPattern(e.Fact, ".*"), met: map[string]bool{}, only: map[string]bool{}}
	for _, node := range e.Nodes {
		s.only[node] = true
	}
	all := facts.Described()
	at := slices.IndexFunc(all, func(d facts.Description) bool { return pathPattern(d.Path, ".+").MatchString(e.Fact) })
	if at < 0 {
		return s, unknownFact(e.Fact, all)
	}
	s.about = all[at]
	if len(e.Is) == 0 {
		return s, errors.New("it does not say what is expected")
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

// pathPattern matches the paths that one with "*" in it stands for.
func pathPattern(path, star string) *regexp.Regexp {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(path), `\*`, star) + "$")
}

// unknownFact names the fact that was likely meant: one with the same last word
// ("gpu.driver" for nvml.driver) before one that is spelt alike.
func unknownFact(path string, all []facts.Description) error {
	var paths, namesakes []string
	last := path[strings.LastIndexByte(path, '.')+1:]
	for _, d := range all {
		paths = append(paths, d.Path)
		if strings.HasSuffix(d.Path, "."+last) {
			namesakes = append(namesakes, d.Path)
		}
	}
	near := Nearest(path, namesakes, len(path))
	if near == "" {
		near = Nearest(path, paths, max(3, len(path)/3))
	}
	if near == "" {
		return &UnknownFactError{fmt.Sprintf("there is no fact %q to compare: preflight -v and the JSON report print their names", path)}
	}
	return &UnknownFactError{fmt.Sprintf("there is no fact %q to compare: the nearest is %q", path, near)}
}

// UnknownFactError says that no node can tell such a fact, and which is near.
type UnknownFactError struct{ message string }

func (e *UnknownFactError) Error() string { return e.message }

// Nearest is the word that is the fewest letters away, missing, added or changed, the
// first of equals; "" when none is within so many.
func Nearest(word string, among []string, slips int) string {
	nearest, least := "", slips+1
	for _, other := range among {
		if d := editDistance(word, other, least); d < least {
			nearest, least = other, d
		}
	}
	return nearest
}

// concerns is whether the expectation is stated of a node.
func (s *statement) concerns(node *facts.Node) bool {
	return len(s.only) == 0 || s.only[node.Name] || s.only[hostfile.Bare(node.Name)]
}

// hold holds all expectations against the fleet.
func hold(fleet facts.Fleet, policy Policy) []statement {
	var held []statement
	for _, e := range policy.Expect {
		s, err := e.read()
		if err != nil {
			s.unclear = []Finding{{Verdict: Unknown, Summary: fmt.Sprintf("%s: %v", e.At, err)}}
		} else {
			s.hold(fleet, policy)
		}
		held = append(held, s)
	}
	return held
}

// hold looks at one node of each kind: most nodes look like one of a few.
func (s *statement) hold(fleet facts.Fleet, policy Policy) {
	section := sectionOf(s.about.Path)
	if _, rightly := fleet.NotTried[section]; rightly {
		return
	}
	stated := fleet
	stated.Nodes = slices.DeleteFunc(slices.Clone(fleet.Nodes), func(n facts.Node) bool { return !s.concerns(&n) })
	nodes, blind := visible(Check{ID: expectation.ID, Needs: []facts.Section{section}}, stated, policy)
	s.blind = blind
	kinds := kindsOf(nodes, section)
	verdicts := make([]Finding, len(kinds.first))
	for kind, node := range kinds.first {
		verdicts[kind] = s.judge(node, section)
	}
	for _, node := range nodes {
		switch seen := verdicts[kinds.of[node]]; seen.Verdict {
		case Pass:
			s.met[node.Name] = true
		case Unknown:
			seen.Nodes = []string{node.Name}
			s.unclear = append(s.unclear, seen)
		default:
			s.missed = append(s.missed, miss{node.Name, seen.Got})
		}
	}
}

// judge holds it against one node: every value of the fact must be allowed, and
// there must be one unless "absent" is.
func (s *statement) judge(node *facts.Node, section facts.Section) Finding {
	values := map[string]string{}
	node.EachComparable(section, func(path, value string) {
		if s.path.MatchString(path) {
			values[path] = value
		}
	})
	if len(values) == 0 || values[s.Fact] == `""` {
		if reason := untold(node, section); reason != "" {
			return Finding{Verdict: Unknown, Explained: true, Summary: reason}
		}
		values[s.Fact] = ""
	}
	var wrong, unclear []string
	for path, value := range values {
		text := path + " " + readable(value, s.about)
		switch allows, err := s.allows(value); {
		case err != nil:
			unclear = append(unclear, text+" "+err.Error())
		case !allows:
			wrong = append(wrong, text)
		}
	}
	slices.Sort(wrong)
	slices.Sort(unclear)
	switch {
	case wrong != nil:
		return Finding{Verdict: Fail, Got: strings.Join(wrong, ", ")}
	case unclear != nil:
		return Finding{Verdict: Unknown, Summary: strings.Join(unclear, ", ") + ", so it cannot be held against " + s.wanted()}
	}
	return Finding{Verdict: Pass}
}

// untold is why a section that was seen cannot tell what is there, "" where it can:
// what it lacks is not absent then, and the check that finds the cause says so.
func untold(node *facts.Node, section facts.Section) string {
	switch {
	case section == facts.SectionNVML && node.NVML.Failure != nil:
		return "the driver of some nodes fails: see " + gpuDriverLoads.ID
	case section == facts.SectionPython && (!node.Python.Found || node.Python.Problem != ""):
		return "no interpreter answered on some nodes: see " + pythonSame.ID
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

// wanted is what is expected, in words.
func (s *statement) wanted() string {
	text := s.Fact + " " + strings.Join(s.Is, " or ")
	if s.At != "" {
		text += " (" + s.At + ")"
	}
	return text
}
