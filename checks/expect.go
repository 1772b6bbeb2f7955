package checks

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

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
	met     bool // by some node
	missed  []miss
	blind   blindness
	unclear []Finding
}

// miss is a node that is not as stated. Its fact is the one path that is not, as it is
// stated where several are.
type miss struct{ node, fact, got string }

// Valid says why an expectation cannot be held against anything: there is no such
// fact ([UnknownFactError]), or no value can be as stated. It does not name the place.
func (e Expectation) Valid() error {
	_, err := e.read()
	return err
}

func (e Expectation) read() (statement, error) {
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

// knownFacts are the facts that nodes tell, each with what matches its paths.
var knownFacts = sync.OnceValue(func() (all []knownFact) {
	for _, d := range facts.Described() {
		all = append(all, knownFact{d, pathPattern(d.Path, ".+")})
	}
	return all
})

type knownFact struct {
	facts.Description
	path *regexp.Regexp
}

// factAt describes the fact with a path, which may have "*" in it.
func factAt(path string) (facts.Description, error) {
	for _, known := range knownFacts() {
		if known.path.MatchString(path) {
			return known.Description, nil
		}
	}
	return facts.Description{}, unknownFact(path)
}

// isEntry is whether a path is that of a whole entry of a list, "net.interfaces.eth1".
func isEntry(path string) bool {
	return slices.ContainsFunc(knownFacts(), func(known knownFact) bool {
		list, _, ofEntries := strings.Cut(known.Path, ".*.")
		name, within := strings.CutPrefix(path, list+".")
		return ofEntries && within && name != "" && !strings.Contains(name, ".")
	})
}

// pathPattern matches the paths that one with "*" in it stands for.
func pathPattern(path, star string) *regexp.Regexp {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(path), `\*`, star) + "$")
}

// unknownFact names the fact that was likely meant: one with the same last word
// ("gpu.driver" for nvml.driver) before one that is spelt alike.
func unknownFact(path string) error {
	var paths, namesakes []string
	last := path[strings.LastIndexByte(path, '.')+1:]
	for _, d := range knownFacts() {
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
		return &UnknownFactError{fmt.Sprintf("there is no fact %q to compare: preflight facts lists them", path)}
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
func (s *statement) concerns(node *facts.Node) bool { return s.names(node.Name) }

func (s *statement) names(node string) bool {
	return len(s.only) == 0 || s.only[node] || s.only[hostfile.Bare(node)]
}

// hold holds all expectations against the fleet.
func hold(fleet facts.Fleet, policy Policy) []statement {
	var held []statement
	seen := map[facts.Section]sight{}
	for _, e := range policy.Expect {
		s, err := e.read()
		section := sectionOf(s.about.Path)
		_, rightly := fleet.NotTried[section]
		switch {
		case err != nil:
			s.unclear = []Finding{{Verdict: Unknown, Summary: fmt.Sprintf("%s: %v", e.At, err)}}
		case !rightly:
			if seen[section].kinds.of == nil {
				seen[section] = sightOf(fleet, policy, section)
			}
			s.hold(seen[section])
		}
		held = append(held, s)
	}
	return held
}

// sight is what the fleet shows of one section. Most nodes look like one of a few,
// and finding out which costs more than all that is then held against those.
type sight struct {
	section facts.Section
	nodes   []*facts.Node
	blind   blindness
	kinds   kinds
}

func sightOf(fleet facts.Fleet, policy Policy, section facts.Section) sight {
	nodes, blind := visible(Check{ID: expectation.ID, Needs: []facts.Section{section}}, fleet, policy)
	return sight{section, nodes, blind, kindsOf(nodes, section)}
}

// hold looks at one node of each kind.
func (s *statement) hold(seen sight) {
	for _, name := range seen.blind.unreached {
		if s.names(name) {
			s.blind.unreached = append(s.blind.unreached, name)
		}
	}
	for _, f := range seen.blind.findings {
		if s.names(f.Nodes[0]) {
			s.blind.findings = append(s.blind.findings, f)
		}
	}
	verdicts := make([]Finding, len(seen.kinds.first))
	for _, node := range seen.nodes {
		if !s.concerns(node) {
			continue
		}
		verdict := &verdicts[seen.kinds.of[node]]
		if verdict.Verdict == "" || s.Fact == peersMTU { // which interface it is, is each node's own
			*verdict = s.judge(node, seen.section)
		}
		switch found := *verdict; found.Verdict {
		case Pass:
			s.met = true
		case Unknown:
			found.Nodes = []string{node.Name}
			s.unclear = append(s.unclear, found)
		default:
			s.missed = append(s.missed, miss{node.Name, found.Fact, found.Got})
		}
	}
}

// judge holds it against one node: every value of the fact must be allowed, and
// there must be one unless "absent" is.
func (s *statement) judge(node *facts.Node, section facts.Section) Finding {
	values := s.values(node, section)
	if full := inFull(s.Fact); len(values) == 0 || values[full] == `""` {
		if reason := untold(node, section); reason != "" {
			return Finding{Verdict: Unknown, Explained: true, Summary: reason}
		}
		if s.Fact == peersMTU {
			return Finding{Verdict: Unknown, Summary: "it is not known which interface leads to the other nodes"}
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
		return Finding{Verdict: Fail, Fact: fact, Got: strings.Join(wrong, ", ")}
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
