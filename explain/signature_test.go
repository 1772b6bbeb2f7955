// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"preflight/checks/catalogue"
)

func signatures(t testing.TB) *Catalogue {
	t.Helper()
	c, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// byID returns all signatures of a catalogue by their ID.
func byID(c *Catalogue) map[string]*Signature {
	all := map[string]*Signature{}
	for _, family := range c.Families {
		for _, s := range family.Signatures {
			all[s.ID] = s
		}
	}
	return all
}

// read returns a log in memory as a Source.
func read(name, text string) Source {
	return Source{name, func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}
}

// found returns the signatures that the whole reader finds in a log.
func found(t testing.TB, text string) []string {
	t.Helper()
	seen := newTally(1)
	seen.sources = []string{"log"}
	if err := signatures(t).read(read("log", text), 0, seen); err != nil {
		t.Fatal(err)
	}
	var ids, alarms []string
	for _, h := range seen.occurrences {
		switch {
		case h.signature == nil:
		case h.signature.Kind == Alarm:
			alarms = append(alarms, h.signature.ID)
		default:
			ids = append(ids, h.signature.ID)
		}
	}
	if len(ids) == 0 {
		return alarms // alarms matter only if there are no known messages
	}
	return ids
}

// TestExamples checks that every signature has examples from real programs and is found in each of
// them. No more specific signature may come after it.
func TestExamples(t *testing.T) {
	for _, family := range signatures(t).Families {
		for _, s := range family.Signatures {
			if len(s.Examples) == 0 || s.From == "" {
				t.Errorf("%s/%s has no example or does not say where it comes from", family.Name, s.ID)
			}
			if s.Kind != Context && s.Kind != Success && s.Cause == "" && s.Summary == "" {
				t.Errorf("%s/%s says nothing to a person", family.Name, s.ID)
			}
			for _, example := range s.Examples {
				if got := found(t, example); len(got) != 1 || got[0] != s.ID {
					t.Errorf("%s/%s: %q is heard as %v", family.Name, s.ID, example, got)
				}
			}
			for _, p := range s.patterns {
				if !slices.ContainsFunc(s.Examples, func(example string) bool { return p.matchesPart(example) }) {
					t.Errorf("%s/%s: no example of %q", family.Name, s.ID, p.says)
				}
			}
		}
	}
}

// matchesPart reports whether the pattern matches an example with or without its prefix.
func (p *pattern) matchesPart(example string) bool {
	message, _ := peel(example)
	return p.says.MatchString(example) || p.says.MatchString(message)
}

// TestSummaries checks that a summary begins like a sentence, with and without values, and has no
// full stop.
func TestSummaries(t *testing.T) {
	program := regexp.MustCompile(`^(?:ssh|pdsh|torchrun|torch|gloo|mpirun|srun|sshd|pip|rank|nvidia-smi|libcuda|protobuf|bash|orted|docker|conda|git|glibc|tensorpipe|deepspeed|accelerate|nvidia_\w+|slurmd|systemd)\b`)
	for _, family := range signatures(t).Families {
		for _, s := range family.Signatures {
			if s.Summary == "" {
				continue
			}
			full, _ := fill(s.Summary, nil, func(name, _ string) (string, bool) { return "X", true })
			for _, sentence := range append(Plain([]string{s.Summary}), full) {
				first := []rune(sentence)[0]
				if !unicode.IsUpper(first) && !unicode.IsDigit(first) && first != '/' && !program.MatchString(sentence) || strings.HasSuffix(sentence, ".") {
					t.Errorf("%s/%s: %q", family.Name, s.ID, sentence)
				}
			}
		}
	}
}

// TestFixesCanBeFilled checks that every placeholder of a fix has a value. The value must come from
// a message with the fix's cause, or from a message that changes that message's meaning.
func TestFixesCanBeFilled(t *testing.T) {
	c := signatures(t)
	groups := map[string]map[string]bool{}
	for _, cause := range c.Causes {
		groups[cause.ID] = map[string]bool{"node": true, "target": true}
	}
	for _, s := range byID(c) {
		for _, p := range s.patterns {
			for _, name := range p.says.SubexpNames() {
				if s.Cause != "" {
					groups[s.Cause][name] = true
				}
				for _, beside := range s.Beside {
					if beside.Cause != "" {
						groups[beside.Cause][name] = true
					}
				}
			}
		}
		for _, beside := range s.Beside {
			for _, id := range beside.Any {
				for _, p := range byID(c)[id].patterns {
					for _, name := range p.says.SubexpNames() {
						if beside.Cause != "" {
							groups[beside.Cause][name] = true
						}
					}
				}
			}
		}
	}
	for _, cause := range c.Causes {
		for _, line := range cause.Fix {
			for _, found := range placeholder.FindAllStringSubmatch(line, -1) {
				if !groups[cause.ID][found[1]] {
					t.Errorf("%s: nothing tells {%s} of %q", cause.ID, found[1], line)
				}
			}
		}
	}
}

// TestCauses checks that every cause has a message, names existing checks, and has a fix that needs
// no value from the log.
func TestCauses(t *testing.T) {
	c := signatures(t)
	values := map[string]bool{}
	for _, s := range byID(c) {
		values[s.Cause] = true
		for _, beside := range s.Beside {
			values[beside.Cause] = true
		}
	}
	for _, cause := range c.Causes {
		if !values[cause.ID] {
			t.Errorf("no signature leads to %s", cause.ID)
		}
		if cause.Title == "" || cause.Doc == "" || strings.Contains(cause.Doc, "{") {
			t.Errorf("%s: title or doc missing, or with a placeholder", cause.ID)
		}
		for _, id := range cause.Checks {
			if _, known := catalogue.Lookup(id); !known {
				t.Errorf("%s: there is no check %q", cause.ID, id)
			}
		}
		plain := 0
		for _, line := range cause.Fix {
			if _, ok := fill(line, nil, asArgument); ok {
				plain++
			}
		}
		if plain == 0 {
			t.Errorf("%s: no fix that needs no value from the log", cause.ID)
		}
	}
}

// TestEveryFileIsRead checks that tables.yaml lists every file in signatures/, because a missing
// file would be ignored.
func TestEveryFileIsRead(t *testing.T) {
	files, err := fs.Glob(data, "signatures/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := strings.TrimSuffix(path.Base(file), ".yaml"); !slices.Contains(tables().Families, name) {
			t.Errorf("%s is not in families, and nobody reads it", file)
		}
	}
	if len(files) != len(tables().Families) {
		t.Errorf("%d files, %d families", len(files), len(tables().Families))
	}
}

// TestTables checks that tables.yaml has a value for every key, and has only keys that the code
// knows.
func TestTables(t *testing.T) {
	known := tables()
	if len(known.Families) == 0 || len(known.Prefixes) == 0 || len(known.Blanks) == 0 || len(known.Segments) == 0 {
		t.Errorf("an empty table: %+v", known)
	}
	for _, words := range slices.Concat(known.Families, known.Prefixes, slices.Collect(maps.Values(known.Blanks)), slices.Collect(maps.Values(known.Segments))) {
		if words == "" {
			t.Error("a key without a value")
		}
	}
}

// TestCatalogueHasNoMistakes checks that everything that a signature refers to exists.
func TestCatalogueHasNoMistakes(t *testing.T) {
	if err := mistakes(signatures(t)); err != nil {
		t.Error(err)
	}
}

// leadsTo reports whether one cause explains another, directly or by way of others.
func (c *Catalogue) leadsTo(from, to string, past []string) bool {
	if from == to || slices.Contains(past, from) || c.causes[from] == nil {
		return from == to
	}
	return slices.ContainsFunc(c.causes[from].Explains, func(id string) bool { return c.leadsTo(id, to, append(past, from)) })
}

// mistakes returns duplicate IDs, and references to kinds, causes, groups and signatures that do
// not exist.
func mistakes(c *Catalogue) (all error) {
	wrong := func(id, format string, values ...any) {
		all = errors.Join(all, fmt.Errorf("%s: %s", id, fmt.Sprintf(format, values...)))
	}
	kinds := map[Kind]bool{Proof: true, Symptom: true, Echo: true, Program: false, Summary: false, Noise: false, Success: false, Context: false, Alarm: false}
	met := map[string]bool{}
	for _, cause := range c.Causes {
		if met[cause.ID] {
			wrong(cause.ID, "is there twice")
		}
		met[cause.ID] = true
		for _, id := range cause.Explains {
			if c.causes[id] == nil && id != string(Program) {
				wrong(cause.ID, "explains %q, which is no cause", id)
			}
			if c.leadsTo(id, cause.ID, nil) {
				wrong(cause.ID, "explains %s, which explains it", id)
			}
		}
	}
	clear(met)
	for _, family := range c.Families {
		for _, s := range family.Signatures {
			if met[s.ID] {
				wrong(s.ID, "is there twice")
			}
			met[s.ID] = true
			if blames, known := kinds[s.Kind]; !known || blames && c.causes[s.Cause] == nil || !blames && s.Cause != "" {
				wrong(s.ID, "%q with the cause %q", s.Kind, s.Cause)
			}
			for _, beside := range s.Beside {
				if c.causes[beside.Cause] == nil && beside.Kind != Noise && beside.Kind != Summary {
					wrong(s.ID, "beside: there is no cause %q", beside.Cause)
				}
				for _, id := range beside.Any {
					if byID(c)[id] == nil {
						wrong(s.ID, "beside: there is no signature %s", id)
					}
				}
			}
			if s.Apart != nil && c.causes[s.Apart.Cause] == nil {
				wrong(s.ID, "apart: there is no cause %q", s.Apart.Cause)
			}
			if s.Differs != "" && !slices.ContainsFunc(s.patterns, func(p *pattern) bool { return p.says.SubexpIndex(s.Differs) > 0 }) {
				wrong(s.ID, "differs: no expression has a group %s", s.Differs)
			}
		}
	}
	return all
}
