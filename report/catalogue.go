// SPDX-License-Identifier: Apache-2.0

package report

import (
	"embed"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/checks/compare"
	"preflight/explain"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
)

//go:embed pages
var pageFiles embed.FS

// pages holds the templates for the generated pages in docs/ and for a draft policy.
var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"capital": func(text string) string { return strings.ToUpper(text[:1]) + text[1:] },
	"cell":    cell,
	"escape":  text.Escape,
	"fold":    hostfile.Fold,
	"indexed": func(s *explain.Signature) bool {
		return s.Kind != explain.Context && s.Kind != explain.Success && s.Kind != explain.Alarm
	},
	"join":         strings.Join,
	"checkCommand": explain.CheckCommand,
	"meaning":      meaning,
	"plain":        explain.Plain,
	"plainWord":    plainWord,
	"plural":       text.Plural,
	"sample":       sample,
	"signatures":   signaturesOf,
	"stated":       statedAs,
	"value":        Value,
	"words":        func(name string) string { return strings.ReplaceAll(name, "_", " ") },
}).ParseFS(pageFiles, "pages/*"))

// Catalogue lists the checks with their severities and when each passes.
func Catalogue(w io.Writer, catalogue []checks.Check, style Style) error {
	p := &page{style: style}
	rows := [][]string{{"check", "severity", "passes when"}}
	for _, check := range catalogue {
		rows = append(rows, []string{check.ID, string(check.Severity), check.Text().Title})
	}
	p.entries(rows)
	return p.writeTo(w)
}

// sample fills the node's name into the text that training may print.
func sample(wouldSee string) string { return strings.ReplaceAll(wouldSee, "{node}", "w3") }

// Check explains one check.
func Check(w io.Writer, check checks.Check, style Style) error {
	p := &page{style: style}
	about := check.Text()
	p.wrapped("", check.ID+": passes when "+about.Title)
	for _, part := range about.Parts {
		p.line("")
		p.line("%s", part.Heading)
		for paragraph := range strings.SplitSeq(part.Body, "\n") {
			item, isItem := strings.CutPrefix(paragraph, "- ")
			for i, line := range p.split(item, 4) {
				switch {
				case isItem && i == 0:
					line = "- " + line
				case isItem:
					line = "  " + line
				}
				p.line("%s", strings.TrimRight("  "+line, " "))
			}
		}
	}
	p.line("")
	reads := text.Map(check.Needs, func(section facts.Section) string { return string(section) })
	where := "on every node"
	if check.OnHead {
		where = "on the launching machine"
	}
	if check.FromPolicy {
		reads = []string{"the facts that the policy names,"}
	}
	p.entries([][]string{
		{"severity", string(check.Severity)},
		{"reads", strings.Join(reads, ", ") + " " + where},
		{LabelWouldSee, sample(about.WouldSee)},
	})
	return p.writeTo(w)
}

// CatalogueMarkdown writes the catalogue of checks as the page docs/checks.md.
func CatalogueMarkdown(w io.Writer, catalogue []checks.Check) error {
	return pages.ExecuteTemplate(w, "checks.md.tmpl", catalogue)
}

// Causes lists the causes of failed launches.
func Causes(w io.Writer, c *explain.Catalogue, style Style) error {
	p := &page{style: style}
	p.entries(text.Map(c.Causes, func(cause explain.Cause) []string { return []string{cause.ID, cause.Title} }))
	return p.writeTo(w)
}

// Cause explains one cause: why it happens, what it looks like in logs and how to fix it.
func Cause(w io.Writer, c *explain.Catalogue, cause explain.Cause, style Style) error {
	p := &page{style: style}
	p.wrapped("", cause.ID+": "+cause.Title)
	p.line("")
	p.wrapped("", cause.Doc)
	p.line("")
	p.field("checks", strings.Join(cause.Checks, ", "))
	p.commands("fix", explain.Plain(cause.Fix))
	p.commands("log lines", text.Map(signaturesOf(c, cause.ID), func(s *explain.Signature) string { return s.Examples[0] }))
	return p.writeTo(w)
}

// CausesMarkdown writes the causes as the page docs/causes.md.
func CausesMarkdown(w io.Writer, c *explain.Catalogue) error {
	return pages.ExecuteTemplate(w, "causes.md.tmpl", c)
}

// MessagesMarkdown writes an index from log messages to causes, the page docs/from-error.md.
func MessagesMarkdown(w io.Writer, c *explain.Catalogue) error {
	index := struct {
		*explain.Catalogue
		Examples map[string]string // one example of each signature, by its ID
	}{c, map[string]string{}}
	for _, family := range c.Families {
		for _, s := range family.Signatures {
			index.Examples[s.ID] = s.Examples[0]
		}
	}
	return pages.ExecuteTemplate(w, "from-error.md.tmpl", index)
}

// meaning returns what a message means alone, and what it means if the logs also contain certain
// other messages. meaning shows one example of each of the other messages.
func meaning(s *explain.Signature, examples map[string]string) string {
	var text string
	switch {
	case s.Cause != "":
		text = link(s.Cause)
	case s.Kind == explain.Noise:
		text = "harmless: " + plainSummary(s)
	default:
		text = plainSummary(s)
	}
	var others []string
	for _, beside := range s.Beside {
		words := "harmless"
		if beside.Cause != "" {
			words = link(beside.Cause)
		}
		others = append(others, fmt.Sprintf("; together with %s: %s", cell(examples[beside.Any[0]]), words))
	}
	return strings.ReplaceAll(text, "|", `\|`) + strings.Join(others, "")
}

func plainSummary(s *explain.Signature) string { return explain.Plain([]string{s.Summary})[0] }

func link(cause string) string { return fmt.Sprintf("[%s](causes.md#%s)", cause, cause) }

func signaturesOf(c *explain.Catalogue, cause string) []*explain.Signature {
	var all []*explain.Signature
	for _, family := range c.Families {
		for _, s := range family.Signatures {
			if s.Cause == cause || slices.ContainsFunc(s.Beside, func(b explain.Beside) bool { return b.Cause == cause }) {
				all = append(all, s)
			}
		}
	}
	return all
}

const widestCell = 160

func cell(message string) string {
	message = text.Escape(strings.Join(strings.Fields(message), " "))
	if len(message) > widestCell {
		message = strings.ToValidUTF8(message[:widestCell], "") + " …"
	}
	return "`" + strings.NewReplacer("|", `\|`, "`", "'").Replace(message) + "`"
}

// statedAs returns which values a policy may state for a fact.
func statedAs(d facts.Description) string {
	switch {
	case d.Kind == facts.List:
		return `list; a policy can only require "absent"`
	case d.Kind == facts.Text:
		return "text or version"
	case d.Kind == facts.Truth:
		return "true or false"
	case d.Unit == "bytes":
		return "size: 16GiB"
	case d.Unit == "bit/s":
		return "rate: 100Gbit/s"
	case d.Unit != "":
		return "number, in " + d.Unit
	}
	return "number"
}

// FactNames lists the facts that a policy can state, and which values each fact can have.
func FactNames(w io.Writer, all []facts.Description, style Style) error {
	p := &page{style: style}
	rows := [][]string{{"fact", "value"}}
	for _, d := range all {
		rows = append(rows, []string{d.Path, statedAs(d)})
	}
	p.entries(rows)
	return p.writeTo(w)
}

// FactNamesMarkdown writes the facts as the page docs/facts.md, with a table for each section.
func FactNamesMarkdown(w io.Writer, all []facts.Description) error {
	sectionOf := func(d facts.Description) string { return string(compare.SectionOf(d.Path)) }
	return pages.ExecuteTemplate(w, "facts.md.tmpl", struct {
		Sections  []text.Group[string, facts.Description]
		Own       []string
		Left      []agreement.Uncompared
		Momentary []facts.Section
	}{text.GroupBy(all, sectionOf), agreement.OwnFacts(), agreement.NeverCompared, facts.Momentary})
}

// KnownBad lists known defects: when each occurs, what happens, what to do, and the source.
func KnownBad(w io.Writer, entries []checks.KnownBad, style Style) error {
	p := &page{style: style}
	for _, entry := range entries {
		p.line("")
		p.wrapped("", entry.ID+": "+entry.Says)
		when := text.Map(slices.Sorted(maps.Keys(entry.When)), func(name string) string { return name + " " + entry.When[name] })
		p.field("severity", string(entry.Severity))
		p.field("when", strings.Join(when, ", "))
		p.field("fixed in", entry.Fixed)
		p.field("or", entry.Cure)
		p.field(LabelWouldSee, entry.WouldSee)
		p.field("source", entry.Source)
	}
	return p.writeTo(w)
}

// PolicySetting is a setting in the first policy of a team.
type PolicySetting struct {
	About      string // why the setting is there, "" for no comment
	Key, Value string
	Off        bool // whether the setting is only a suggestion, in a comment
}

// PolicyDraft writes a first policy for a team. PolicyDraft quotes the nodes' text so that YAML
// reads it back unchanged. The quoted text cannot end a comment.
func PolicyDraft(w io.Writer, nodes []string, settings []PolicySetting, drafts []agreement.Draft) error {
	return pages.ExecuteTemplate(w, "policy.yaml.tmpl", struct {
		Nodes    []string
		Settings []PolicySetting
		Drafts   []agreement.Draft
		Agreed   bool // whether the nodes agree on any fact
	}{nodes, settings, drafts, slices.ContainsFunc(drafts, func(d agreement.Draft) bool { return len(d.Groups) < 2 })})
}

// plainWord returns the path of a fact, quoted if YAML would not read it as plain text.
func plainWord(path string) string {
	if strings.Trim(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == "" {
		return path
	}
	return strconv.QuoteToASCII(path)
}
