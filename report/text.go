package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"

	"preflight/checks"
	"preflight/hostfile"
)

// Style is how text is drawn.
type Style struct {
	Width   int  // columns; 0 means 100
	Color   bool // only on a terminal without NO_COLOR
	Verbose bool // every difference, every check
	Quiet   bool // verdict and findings only
}

// Text writes the report for a person: the verdict, one block a root cause,
// what differs between the nodes, and a line of what passed.
func Text(w io.Writer, r checks.Report, style Style) error {
	p := pageOf(r, style)
	p.headline(r)
	p.findings(r)
	p.waived(r.Waived)
	switch {
	case !style.Quiet:
		p.diff(r.Diff)
		p.advice(r)
		p.line("")
		p.launch(r)
		p.interconnect(r)
		p.wire(r)
		p.rest(r)
		if style.Verbose {
			p.topologies(r.Nodes)
		}
	case r.Verdict == checks.Unknown:
		p.untold(r)
	}
	return p.writeTo(w)
}

// page is the text as it grows.
type page struct {
	out   strings.Builder
	style Style
	fleet int             // how many nodes there are, to say "all 4 nodes"; two are named
	gone  map[string]bool // nodes that findings name and the fleet has not
}

// pageOf is an empty page for a report.
func pageOf(r checks.Report, style Style) *page {
	p := &page{style: style, fleet: len(r.Nodes), gone: map[string]bool{}}
	here := map[string]bool{}
	for i := range r.Nodes {
		here[r.Nodes[i].Name] = true
	}
	for _, f := range r.Findings {
		p.away(f.Nodes, here)
	}
	for _, w := range r.Waived {
		p.away(w.Nodes, here)
	}
	return p
}

func (p *page) away(names []string, here map[string]bool) {
	for _, name := range names {
		if !here[name] {
			p.gone[name] = true
		}
	}
}

// writeTo hands the page out when it is complete: only then it shows what a line begins
// with.
func (p *page) writeTo(w io.Writer) error {
	_, err := io.WriteString(w, unobeyed(p.out.String()))
	return err
}

// words says each verdict as a fixed-width word, so that blocks line up and
// logs can be searched.
var words = map[checks.Verdict]string{
	checks.Fail: "FAIL", checks.Warn: "WARN", checks.Unknown: "UNKNOWN", checks.Pass: "PASS", checks.Skip: "SKIP",
}

var colors = map[checks.Verdict]string{
	checks.Fail: "9", checks.Warn: "11", checks.Unknown: "13", checks.Pass: "10", checks.Skip: "8",
}

func (p *page) line(format string, args ...any) {
	fmt.Fprintf(&p.out, format+"\n", args...)
}

func (p *page) colored(v checks.Verdict, text string) string {
	if !p.style.Color {
		return text
	}
	return lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Color(colors[v])).Render(text)
}

func (p *page) faint(text string) string {
	if !p.style.Color {
		return text
	}
	return lipgloss.NewStyle().Faint(true).Render(text)
}

func (p *page) width() int { return cmp.Or(p.style.Width, 100) }

// nodes folds a node set for a heading.
func (p *page) nodes(names []string) string {
	switch {
	case len(names) == 0:
		return "the launching machine"
	case len(names) == p.fleet && p.fleet > 2 && !slices.ContainsFunc(names, func(name string) bool { return p.gone[name] }):
		return fmt.Sprintf("all %d nodes", p.fleet)
	}
	return Escape(hostfile.Fold(names))
}

// whom a finding is about: its nodes, or the line of the policy that it is about.
func (p *page) whom(f checks.Finding) string {
	if len(f.Nodes) == 0 && f.At != "" {
		return Escape(f.At)
	}
	return p.nodes(f.Nodes)
}

// longestWhom is how many characters of a node set stand in a headline.
const longestWhom = 60

// briefly is nodes, or how many they are where their names would drown the sentence.
func (p *page) briefly(names []string) string {
	text := p.nodes(names)
	if len(names) < 2 || len(text) <= longestWhom {
		return text
	}
	return fmt.Sprintf("%d of %s", len(names), plural(p.fleet, "node"))
}

// headline says the verdict, on whom, and how long it took.
func (p *page) headline(r checks.Report) {
	p.line("%s  %s", p.colored(r.Verdict, words[r.Verdict]), p.conclusion(r))
	for _, line := range p.split(p.summary(r), 0) {
		p.line("%s", p.faint(line))
	}
}

// findings writes one block a root cause.
func (p *page) findings(r checks.Report) {
	for _, f := range r.Findings {
		if f.Verdict != checks.Unknown {
			p.finding(f)
		}
	}
	for _, blind := range p.blind(r.Findings) {
		p.line("\n%s  could not look  %s", p.colored(checks.Unknown, words[checks.Unknown]), blind.nodes)
		p.field("because", blind.reason)
		p.field("for", strings.Join(blind.checks, ", "))
	}
}

func (p *page) finding(f checks.Finding) {
	p.line("\n%s  %s  %s", p.colored(f.Verdict, words[f.Verdict]), f.Check, p.whom(f))
	p.told(f)
}

// told is a finding without its heading.
func (p *page) told(f checks.Finding) {
	p.wrapped("      ", f.Summary)
	p.field("got", f.Got)
	p.field("want", f.Want)
	for i, fix := range f.Fix {
		// A command is for pasting: it is never wrapped.
		p.line("  %7s  %s", firstOnly(i, "fix"), Escape(fix))
	}
	if f.WouldSee != "" {
		p.field("or see", f.WouldSee)
	}
}

// field writes a labelled value whose further lines are indented below it.
func (p *page) field(label, value string) {
	if value == "" {
		return
	}
	for i, line := range p.split(value, 11) {
		p.line("  %7s  %s", firstOnly(i, label), line)
	}
}

// firstOnly is the label on a field's first line and blank below it.
func firstOnly(i int, label string) string {
	if i == 0 {
		return label
	}
	return ""
}

func (p *page) wrapped(indent, text string) {
	for _, line := range p.split(text, len(indent)) {
		p.line("%s%s", indent, line)
	}
}

// split wraps text to the page, indent columns left free.
func (p *page) split(text string, indent int) []string {
	var lines []string
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		lines = append(lines, wrap(Escape(paragraph), max(p.width()-indent, 20))...)
	}
	return lines
}

// wrap breaks text at blanks alone: check IDs, paths and options keep their
// hyphens together, and a word wider than the page stays whole, to be pasted.
func wrap(text string, width int) []string {
	lines := []string{""}
	for word := range strings.SplitSeq(text, " ") {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case lipgloss.Width(*last)+1+lipgloss.Width(word) <= width:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}

// rest says what passed, what could not be told for nodes that were never
// reached, what did not apply, and what no check looks at.
func (p *page) rest(r checks.Report) {
	for _, group := range byReason(r, checks.Pass) {
		p.list("passed", group.checks, group.reason)
	}
	p.incomplete(r)
	for _, group := range byReason(r, checks.Skip) {
		if group.reason == checks.AllWaived {
			continue // told with the findings
		}
		p.list("not judged", group.checks, group.reason)
	}
	p.list("not covered", []string{checks.NotCovered}, "")
}

// incomplete lists the checks that could not be told, and why.
func (p *page) incomplete(r checks.Report) {
	for _, group := range byReason(r, checks.Unknown) {
		p.list("not complete", group.checks, group.reason)
	}
}

func isUnknown(f checks.Finding) bool { return f.Verdict == checks.Unknown }

// list writes a label, the checks it is about, and why.
func (p *page) list(label string, ids []string, reason string) {
	text := strings.Join(ids, ", ")
	if reason != "" {
		if len(ids) > 6 && !p.style.Verbose {
			text = fmt.Sprintf("%d checks", len(ids))
		}
		text += ": " + reason
	}
	for i, line := range p.split(text, 14) {
		p.line("%s  %s", p.faint(fmt.Sprintf("%-12s", firstOnly(i, label))), line)
	}
}

type reasonGroup struct {
	reason string
	checks []string
}

// byReason groups the checks of one verdict by their reason, leaving out those
// whose findings have been shown already.
func byReason(r checks.Report, v checks.Verdict) []reasonGroup {
	var groups []reasonGroup
	shown := map[string]bool{}
	for _, f := range r.Findings {
		shown[f.Check] = true
	}
	for _, outcome := range r.Checks {
		if outcome.Verdict != v || shown[outcome.Check] {
			continue
		}
		at := slices.IndexFunc(groups, func(g reasonGroup) bool { return g.reason == outcome.Reason })
		if at < 0 {
			at = len(groups)
			groups = append(groups, reasonGroup{reason: outcome.Reason})
		}
		groups[at].checks = append(groups[at].checks, outcome.Check)
	}
	return groups
}

func outcomes(r checks.Report, v checks.Verdict) []string {
	var ids []string
	for _, outcome := range r.Checks {
		if outcome.Verdict == v {
			ids = append(ids, outcome.Check)
		}
	}
	return ids
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
