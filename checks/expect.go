package checks

import (
	"errors"
	"regexp"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
)

// Expectation is what the policy states of one fact.
type Expectation struct {
	// Fact is a path as the diff prints it, "nvml.driver"; a "*" in it stands for any
	// text, so that "net.interfaces.eth*.mtu" is the MTU of each such interface. Two have
	// a short name, "gpu.driver" and "net.mtu".
	Fact string
	// Is lists what is allowed, each a comparison (">=570.86", ">=2.4, <2.6"), a plain
	// value, or "absent". Versions are compared as versions, sizes and rates by their units.
	Is []string
	// Nodes are those it is stated of, with or without a user; none means all.
	Nodes    []string
	Severity Severity // "" weighs as Error where it is missed, and demands no look
	Fix      string   // "" where it says nothing
	At       string   // where it is stated, "preflight.yaml:12"
}

// statement is an expectation that can be held against values.
type statement struct {
	Expectation
	about    facts.Description
	path     *regexp.Regexp  // the paths it is about
	only     map[string]bool // nodes it is stated of, empty for all
	allowed  []constraint
	met      bool // by some node
	missed   []miss
	sight    Sight
	unclear  []Finding
	notTried string // why nobody was to look at what it is about, "" where somebody was
}

// miss is a node that is not as stated. Its fact is the one path that is not, as it is
// stated where several are.
type miss struct{ node, fact, got string }

// ValidExpectation says why an expectation cannot be held against anything: there is no such
// fact ([UnknownFactError]), or no value can be as stated. It does not name the place.
func ValidExpectation(e Expectation) error {
	_, err := readExpectation(e)
	return err
}

func readExpectation(e Expectation) (statement, error) {
	path := inFull(e.Fact)
	s := statement{Expectation: e, path: pathPattern(path, ".*"), only: map[string]bool{}}
	for _, node := range e.Nodes {
		s.only[node] = true
	}
	about, err := factAt(path)
	if err != nil {
		return s, err
	}
	s.about = about
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

// names is whether the expectation is stated of a node.
func (s *statement) names(node string) bool {
	return len(s.only) == 0 || s.only[node] || s.only[hostfile.Bare(node)]
}

// wanted is what is expected, in words.
func (s *statement) wanted() string {
	text := s.Fact + " " + strings.Join(s.Is, " or ")
	if s.At != "" {
		text += " (" + s.At + ")"
	}
	return text
}
