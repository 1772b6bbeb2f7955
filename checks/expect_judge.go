package checks

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
)

// holding is how one node meets a statement.
type holding struct {
	verdict   Verdict // Pass, Fail or Unknown
	fact      string  // that is not as stated, as it is stated where several are
	told      string  // what is there instead, or why that cannot be told
	explained bool    // of an unknown: another check says why
}

// judge holds it against one node: every value of the fact must be allowed, and
// there must be one unless "absent" is.
func (s *statement) judge(node *facts.Node, section facts.Section) holding {
	values := s.values(node, section)
	if full := inFull(s.Fact); len(values) == 0 || values[full] == `""` {
		if reason := untold(node, section); reason != "" {
			return holding{verdict: Unknown, told: reason, explained: true}
		}
		if s.Fact == peersMTU {
			return holding{verdict: Unknown, told: "it is not known which interface leads to the other nodes"}
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
		return holding{verdict: Fail, fact: fact, told: strings.Join(wrong, ", ")}
	case unclear != nil:
		return holding{verdict: Unknown, told: strings.Join(unclear, ", ") + ", so it cannot be held against " + s.wanted()}
	}
	return holding{verdict: Pass}
}

// untold is why a section that was seen cannot tell what is there, "" where it can:
// what it lacks is not absent then, and the check that finds the cause says so.
func untold(node *facts.Node, section facts.Section) string {
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
		text, err := json.Marshal(value)
		if err != nil {
			return false
		}
		value = string(text)
	}
	allowed, err := s.allows(value)
	return err == nil && allowed
}

// readable is a fact's value as a person reads it.
func readable(value string, about facts.Description) string {
	switch text := plainValue(json.RawMessage(value)); {
	case about.Kind != facts.Number || about.Unit != "bytes":
		return text
	case strings.HasPrefix(text, "-") && canBeUnlimited(about.Path):
		return unlimitedWord
	default:
		if size, err := strconv.ParseInt(text, 10, 64); err == nil {
			return exactly(size)
		}
		return text
	}
}
