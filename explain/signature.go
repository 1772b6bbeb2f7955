// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"preflight/internal/literal"
)

// Cause is a reason why launches fail.
type Cause struct {
	ID       string   `yaml:"id"`       // stable, kebab-case, never reused
	Title    string   `yaml:"title"`    // what is wrong, in one line
	Doc      string   `yaml:"doc"`      // why the cause occurs and how it appears in logs
	Checks   []string `yaml:"checks"`   // the checks that find the cause before the launch, the best check first
	Explains []string `yaml:"explains"` // the causes, or program, that follow from this cause
	// Fix lists commands and remarks, the most useful first. It may contain the same placeholders
	// as Signature.Summary. A line is left out if a value is unknown and the placeholder has no
	// alternative words.
	Fix []string `yaml:"fix"`
}

// Kind says how much a message reveals about why a job died.
type Kind string

const (
	Proof   Kind = "cause"   // the message names its own cause
	Symptom Kind = "symptom" // something failed here; the signature's cause is the usual reason
	Program Kind = "program" // the program's own fault, including exceptions without a signature
	Echo    Kind = "echo"    // another rank or program died first
	Summary Kind = "summary" // a launcher's list of ended ranks, never the cause
	Noise   Kind = "noise"   // harmless, although it looks bad
	Success Kind = "success" // an earlier attempt has succeeded
	Context Kind = "context" // no meaning on its own; changes the meaning of other messages
	Alarm   Kind = "alarm"   // looks like a failure of unknown cause; without an explanation the log does not pass
)

// Signature describes one message of one program.
type Signature struct {
	ID    string `yaml:"id"` // unique and stable in the catalogue
	Kind  Kind   `yaml:"kind"`
	Cause string `yaml:"cause"` // ID of the cause; set for a cause, symptom or echo
	// Says lists regular expressions (RE2) for a line without its prefixes. One match is enough.
	// The groups' names are the names of the values in the message: rank, node, peer, port,
	// interface, path, bytes, seconds, ms, …
	Says []string `yaml:"says"`
	// Unless lists expressions for lines that match Says but have another meaning.
	Unless []string `yaml:"unless"`
	// Retried means that the program may continue after the message. The message counts unless the
	// log shows success after it.
	Retried bool `yaml:"retried"`
	// Differs names a group whose value must be the same in the whole job. The message is a cause
	// if several values occur. Otherwise it has no meaning.
	Differs string `yaml:"differs"`
	// Apart is the meaning of the message if ranks of one group report the same call number (seq)
	// with a different op or a different number of elements.
	Apart *Apart `yaml:"apart"`
	// Beside gives the message another cause if the logs also contain another message.
	Beside []Beside `yaml:"beside"`
	// Summary is one sentence about this message. {group} is replaced with a value of the message.
	// {group|words} is replaced with the value, or with the words if there is no value. If Summary
	// is empty, the cause's title is used.
	Summary string `yaml:"summary"`
	// Title, Checks and Fix replace the cause's title, checks and fixes. They are set if the
	// message is more specific than the cause.
	Title    string   `yaml:"title"`
	Checks   []string `yaml:"checks"`
	Fix      []string `yaml:"fix"`
	From     string   `yaml:"from"` // source of the text: project, file, versions
	Examples []string `yaml:"examples"`

	patterns []*pattern
	unless   *literal.Set
}

// pattern is one expression of a signature.
type pattern struct {
	*Signature
	says   literal.Expression
	order  int  // position in the catalogue: the first of two matches wins
	counts bool // the pattern looks for certain digits, not only for any number
}

// Beside is a second meaning of a message. It applies if the logs contain a message of one of the
// signatures in Any. If All is set, those messages mark the node of rank 0, and the meaning applies
// if that node or rank 0, or each of several logs, has the message itself.
type Beside struct {
	Any     []string `yaml:"any"`
	All     bool     `yaml:"all"`
	Cause   string   `yaml:"cause"`   // "" only for noise and summaries
	Kind    Kind     `yaml:"kind"`    // "" keeps the signature's kind
	Summary string   `yaml:"summary"` // "" keeps the signature's summary
	Fix     []string `yaml:"fix"`     // fixes to list before those of the cause
}

// Apart is the meaning of a message if calls that should be the same differ.
type Apart struct {
	Cause   string `yaml:"cause"`
	Summary string `yaml:"summary"` // summary with the placeholders {number} and {calls}
}

// Catalogue holds all causes and signatures.
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

// tables returns the contents of tables.yaml, which explains each table.
var tables = sync.OnceValue(func() (t struct {
	Families          []string
	Prefixes          []string
	Launchers         map[string]struct{ Prints, Frame *regexp.Regexp }
	Looks, Incomplete *regexp.Regexp
	Blanks            map[string]string
	OfCommand         []string `yaml:"of_command"`
	Segments          map[uint64]string
}) {
	if err := decode(data, "tables.yaml", &t); err != nil {
		panic(err) // cannot happen: the file is embedded
	}
	return t
})

// Load returns the embedded catalogue. It reads the catalogue only once.
var Load = sync.OnceValues(func() (*Catalogue, error) { return load(data) })

func load(files fs.FS) (*Catalogue, error) {
	c := &Catalogue{causes: map[string]*Cause{}, index: &index{}}
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
	unless, err := literal.NewSet(s.Unless...)
	if err != nil {
		return fmt.Errorf("unless: %w", err)
	}
	s.unless = unless
	says := s.Says
	if s.Kind == Alarm { // has no values: one look at the line is enough for all
		says = []string{"(?:" + strings.Join(says, ")|(?:") + ")"}
	}
	for _, text := range says {
		says, err := literal.Parse(text, literal.Gram)
		if err != nil {
			return err
		}
		p := &pattern{s, says, c.patterns, numbers.MatchString(text)}
		for _, text := range says.Literals {
			c.index.Add(text, mostTorn, p)
		}
		s.patterns = append(s.patterns, p)
		c.patterns++
	}
	return nil
}

// numbers matches expressions that look for specific numbers or for a fixed count of digits.
var numbers = regexp.MustCompile(`[1-9]|\\d\\d`)

// Lookup returns the cause with this ID, and false if there is none.
func (c *Catalogue) Lookup(id string) (Cause, bool) {
	if cause := c.causes[id]; cause != nil {
		return *cause, true
	}
	return Cause{}, false
}

// longestGroup is the maximum length in bytes of a group's value.
const longestGroup = 256

// silent reports whether the speaker, time and values of the message do not matter.
func (p *pattern) silent() bool {
	return p.Kind == Success || p.Kind == Context && p.says.NumSubexp() == 0
}

// matches reports whether a message matches and no expression of Unless does.
func (p *pattern) matches(text string) bool {
	return p.says.MatchString(text) && !p.unless.Match(text)
}

// match returns where the pattern matches the text, and the values of its groups. If the text need not
// match, matches is much faster.
func (p *pattern) match(text string) (at, end int, values map[string]string, ok bool) {
	found := p.says.FindStringSubmatchIndex(text)
	if found == nil || p.unless.Match(text) {
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
