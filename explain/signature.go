// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// Cause is what can be at the bottom of a failed launch.
type Cause struct {
	ID     string   `yaml:"id"`     // stable, kebab-case, never reused
	Title  string   `yaml:"title"`  // what is wrong, in one line
	Doc    string   `yaml:"doc"`    // why it happens and what it looks like
	Checks []string `yaml:"checks"` // the checks that say so before the launch, the first one first
	// Fix are commands and remarks, most useful first, filled as Signature.Summary
	// is; a line whose variable is not known is left out.
	Fix []string `yaml:"fix"`
}

// Kind is how much a message says about why a job died.
type Kind string

const (
	Proof   Kind = "cause"   // names its own cause
	Symptom Kind = "symptom" // something failed here; the cause named is the usual one
	Program Kind = "program" // the program's own fault, as is an exception that nobody knows
	Echo    Kind = "echo"    // somebody else died first
	Summary Kind = "summary" // a launcher counts its dead; never the cause
	Noise   Kind = "noise"   // harmless, however it looks
	Success Kind = "success" // what was tried before has worked
	Context Kind = "context" // says nothing of its own; others mean another thing beside it
	Alarm   Kind = "alarm"   // looks like a failure, and nobody knows of what: no pass where nothing explains it
)

// Signature is one message of one program.
type Signature struct {
	ID    string `yaml:"id"` // stable within the catalogue
	Kind  Kind   `yaml:"kind"`
	Cause string `yaml:"cause"` // of a cause, symptom or echo
	// Says are regular expressions (RE2) over a line without its decoration; any of
	// them will do. Groups name what the message tells: rank, node, peer, port,
	// interface, path, bytes, seconds, ms, …
	Says []string `yaml:"says"`
	// Unless are expressions by which a line that says so does not mean it.
	Unless []string `yaml:"unless"`
	// Retried is a message after which the program goes on: it counts unless the log
	// shows that all went well afterwards.
	Retried bool `yaml:"retried"`
	// Differs names a group whose value must be one in the whole job: the message is
	// a cause where it comes with several values, and nothing otherwise.
	Differs string `yaml:"differs"`
	// Apart is what it means where ranks say so of one number (seq) of one group with another op or
	// another count of elements.
	Apart *Apart `yaml:"apart"`
	// Beside gives another cause to this message in logs that have another message too.
	Beside []Beside `yaml:"beside"`
	// Summary is one sentence for this message, with {group} for what it holds and
	// {group|words} for words instead where it did not. Without one the cause's title stands.
	Summary string `yaml:"summary"`
	// Title, Checks and Fix stand for the cause's, where this message tells it better.
	Title    string   `yaml:"title"`
	Checks   []string `yaml:"checks"`
	Fix      []string `yaml:"fix"`
	From     string   `yaml:"from"` // where the text comes from: project, file, versions
	Examples []string `yaml:"examples"`

	patterns []*pattern
	unless   []expression
}

// pattern is one of the expressions of a signature.
type pattern struct {
	*Signature
	says   *regexp.Regexp
	order  int  // in the catalogue: on one line the first of two wins
	counts bool // numbers in the message matter, and not only that they are there
}

// Beside is a second meaning: the cause where one of the signatures is in the log.
type Beside struct {
	Any   []string `yaml:"any"`
	Cause string   `yaml:"cause"` // "" only for a noise or a summary
	Kind  Kind     `yaml:"kind"`  // "" leaves the signature's
	Fix   []string `yaml:"fix"`   // before those of the cause
}

// Apart is the meaning of calls that should be one and are not.
type Apart struct {
	Cause   string `yaml:"cause"`
	Summary string `yaml:"summary"` // with {number} and {calls}
}

// Catalogue is all that is known of messages.
type Catalogue struct {
	Causes   []Cause
	Families []Family
	causes   map[string]*Cause
	patterns int
	index    *index
}

// Family is one file of signatures.
type Family struct {
	Name       string
	Signatures []*Signature
}

//go:embed causes.yaml tables.yaml signatures/*.yaml
var data embed.FS

// tables returns the tables of tables.yaml, which says what each is for.
var tables = sync.OnceValue(func() (t struct {
	Families []string
	Prefixes []string
	Blanks   map[string]string
	Segments map[uint64]string
}) {
	if err := decode(data, "tables.yaml", &t); err != nil {
		panic(err) // it is embedded
	}
	return t
})

// Load reads the embedded catalogue, once.
var Load = sync.OnceValues(func() (*Catalogue, error) { return load(data) })

func load(files fs.FS) (*Catalogue, error) {
	c := &Catalogue{causes: map[string]*Cause{}, index: &index{exact: map[uint32][]entry{}}}
	if err := decode(files, "causes.yaml", &c.Causes); err != nil {
		return nil, err
	}
	for i := range c.Causes {
		c.causes[c.Causes[i].ID] = &c.Causes[i]
	}
	for _, name := range tables().Families {
		family := Family{Name: name}
		file := "signatures/" + name + ".yaml"
		if err := decode(files, file, &family.Signatures); err != nil {
			return nil, err
		}
		for _, s := range family.Signatures {
			if err := c.add(s); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", file, s.ID, err)
			}
		}
		c.Families = append(c.Families, family)
	}
	return c, nil
}

func decode(files fs.FS, name string, into any) error {
	file, err := files.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	decoder := yaml.NewDecoder(file)
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (c *Catalogue) add(s *Signature) error {
	for _, text := range s.Unless {
		unless, err := parse(text, gram)
		if err != nil {
			return fmt.Errorf("unless: %w", err)
		}
		s.unless = append(s.unless, unless)
	}
	for _, text := range s.Says {
		says, err := parse(text, gram)
		if err != nil {
			return err
		}
		p := &pattern{s, says.Regexp, c.patterns, numbers.MatchString(text)}
		for _, literal := range says.literals {
			c.index.add(literal, p)
		}
		s.patterns = append(s.patterns, p)
		c.patterns++
	}
	return nil
}

// numbers is what an expression has that asks for a number, or for so many digits.
var numbers = regexp.MustCompile(`[1-9]|\\d\\d`)

// Lookup finds a cause by its ID.
func (c *Catalogue) Lookup(id string) (Cause, bool) {
	if cause := c.causes[id]; cause != nil {
		return *cause, true
	}
	return Cause{}, false
}

// longestGroup is how much is kept of what one group caught.
const longestGroup = 256

// silent is whether it does not matter who said this, when, and what it tells.
func (p *pattern) silent() bool {
	return p.Kind == Success || p.Kind == Context && p.says.NumSubexp() == 0
}

// in is whether a message says so and means it.
func (p *pattern) in(text string) bool {
	return p.says.MatchString(text) && !p.exempted(text)
}

func (s *Signature) exempted(text string) bool {
	return slices.ContainsFunc(s.unless, func(e expression) bool { return e.may(text) && e.MatchString(text) })
}

// match holds one text against the pattern and returns where it matches and what its
// groups caught.
func (p *pattern) match(text string) (at, end int, values map[string]string, ok bool) {
	found := p.says.FindStringSubmatchIndex(text)
	if found == nil || p.exempted(text) {
		return 0, 0, nil, false
	}
	values = map[string]string{}
	for i, name := range p.says.SubexpNames() {
		if name != "" && found[2*i] >= 0 {
			value := text[found[2*i]:found[2*i+1]]
			values[name] = strings.ToValidUTF8(strings.TrimSpace(value[:min(len(value), longestGroup)]), "")
		}
	}
	return found[0], found[1], values, true
}
