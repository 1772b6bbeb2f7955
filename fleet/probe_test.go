package fleet

import (
	"slices"
	"testing"

	"preflight/facts"
	"preflight/probe"
)

// TestTakeBelievesNobody: a node cannot change what it has said, nor speak of
// what it was not asked.
func TestTakeBelievesNobody(t *testing.T) {
	for name, test := range map[string]struct {
		answers [][2]string // section and body
		seen    []facts.Section
		missing []facts.Section
	}{
		"seen":             {[][2]string{{"host", `{"seen":{"host":{}}}`}}, []facts.Section{facts.SectionHost}, nil},
		"missing":          {[][2]string{{"host", `{"missing":"why"}`}}, nil, []facts.Section{facts.SectionHost}},
		"another section":  {[][2]string{{"host", `{"seen":{"net":{}}}`}}, nil, []facts.Section{facts.SectionHost}},
		"garbage":          {[][2]string{{"host", `7`}}, nil, []facts.Section{facts.SectionHost}},
		"not asked":        {[][2]string{{"ssh", `{"seen":{"ssh":{}}}`}}, nil, nil},
		"seen and missing": {[][2]string{{"host", `{"seen":{"host":{}}}`}, {"host", `{"missing":"why"}`}}, []facts.Section{facts.SectionHost}, nil},
		"missing and seen": {[][2]string{{"host", `{"missing":"why"}`}, {"host", `{"seen":{"host":{}}}`}}, nil, []facts.Section{facts.SectionHost}},
	} {
		t.Run(name, func(t *testing.T) {
			node := facts.Node{Missing: map[facts.Section]string{}}
			for _, answer := range test.answers {
				take(&node, probe.Of(probe.Nodes), facts.Section(answer[0]), []byte(answer[1]))
			}
			for _, section := range []facts.Section{facts.SectionHost, facts.SectionNet, facts.SectionSSH} {
				if seen := slices.Contains(test.seen, section); node.Has(section) != seen {
					t.Errorf("%s: seen %v, want %v", section, !seen, seen)
				}
				if missing := slices.Contains(test.missing, section); (node.Missing[section] != "") != missing {
					t.Errorf("%s: missing %q, want %v", section, node.Missing[section], missing)
				}
			}
		})
	}
}
