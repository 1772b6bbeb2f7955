package explain

import (
	"maps"
	"slices"
	"strings"
)

// mostEvidence is how many lines are shown of one finding.
const mostEvidence = 5

// finding tells one cause by all that was said of it.
func (c *Catalogue) finding(t *tally, id string, verdicts []verdict) Finding {
	cause := c.causes[id]
	f := Finding{Cause: id, Title: cause.Title, Checks: cause.Checks, Evidence: []Evidence{}}
	if len(cause.Checks) > 0 {
		f.Check = cause.Checks[0]
		f.Command = "preflight -H hostfile --only " + strings.Join(cause.Checks, ",")
	}
	told := map[string]string{}
	// What names the cause is better evidence than what only suggests it.
	for _, kind := range []Kind{Proof, Symptom, Echo} {
		for _, v := range verdicts {
			if v.cause != id || v.kind != kind {
				continue
			}
			for name, value := range v.told {
				if _, known := told[name]; !known {
					told[name] = value
				}
			}
			if f.Summary == "" && v.signature != nil {
				f.Summary, _ = fill(v.signature.Summary, with(v.told, "node", v.node), inWords)
			}
			t.note(&f, v)
		}
	}
	if f.Summary == "" {
		f.Summary = cause.Title
	}
	told["nodes"] = strings.Join(f.Nodes, ",")
	if len(f.Nodes) > 0 {
		told["node"] = f.Nodes[0]
	}
	for _, line := range cause.Fix {
		if filled, ok := fill(line, told, asArgument); ok {
			f.Fix = append(f.Fix, filled)
		}
	}
	return f
}

// fold adds a message without a cause to those of the same signature, and an
// exception to those of the same class.
func (t *tally) fold(findings []Finding, v verdict) []Finding {
	summary, alike := v.said, v.said
	if v.signature != nil {
		var ok bool
		if summary, ok = fill(v.signature.Summary, v.told, inWords); !ok {
			summary = v.signature.ID
		}
		alike = v.signature.ID
	} else {
		alike, _, _ = strings.Cut(v.said, ":")
	}
	at, known := t.folded[alike]
	if !known {
		at = len(findings)
		t.folded[alike] = at
		findings = append(findings, Finding{Summary: summary, Evidence: []Evidence{}})
	}
	t.note(&findings[at], v)
	return findings
}

// note adds what one speaker said to a finding.
func (t *tally) note(f *Finding, v verdict) {
	f.Count += v.count
	if v.signature != nil && v.signature.Differs != "" {
		t.noteValues(f, v.signature)
		return
	}
	if v.node != "" && !slices.Contains(f.Nodes, v.node) {
		f.Nodes = append(f.Nodes, v.node)
	}
	if v.rank != "" && !slices.Contains(f.Ranks, v.rank) {
		f.Ranks = append(f.Ranks, v.rank)
	}
	if len(f.Evidence) < mostEvidence {
		f.Evidence = append(f.Evidence, t.evidence(v.event))
	}
}

// noteValues shows who said each of the values that should be one.
func (t *tally) noteValues(f *Finding, s *Signature) {
	said := slices.SortedFunc(maps.Values(t.values[s]), func(a, b event) int { return a.position - b.position })
	for _, e := range said {
		shown := t.evidence(e)
		if len(f.Evidence) < mostEvidence && !slices.Contains(f.Evidence, shown) {
			f.Evidence = append(f.Evidence, shown)
		}
		if e.node != "" && !slices.Contains(f.Nodes, e.node) {
			f.Nodes = append(f.Nodes, e.node)
		}
	}
}

func (t *tally) evidence(e event) Evidence {
	return Evidence{File: t.sources[e.file], Line: e.line, Node: e.node, Rank: e.rank, Time: e.at.String(), Text: e.text}
}

// timeline is the first failure of each speaker, if there are several.
func (t *tally) timeline(verdicts []verdict) []Death {
	var deaths []Death
	seen := map[speaker]bool{}
	for _, v := range verdicts {
		failed := v.kind == Program || v.kind == Proof || v.kind == Symptom || v.kind == Echo
		if !failed || seen[v.speaker] || v.speaker == (speaker{}) {
			continue
		}
		seen[v.speaker] = true
		e := t.evidence(v.event)
		deaths = append(deaths, Death{Node: e.Node, Rank: e.Rank, Time: e.Time, Cause: v.cause, File: e.File, Line: e.Line, Text: e.Text})
	}
	if len(deaths) < 2 {
		return nil
	}
	return deaths
}
