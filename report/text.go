// SPDX-License-Identifier: Apache-2.0

// Package report renders a finished report: as text for a person with a launch waiting and
// as JSON for everything else. What all formats say in the same words is here too; the
// rooms html and ci draw it for browsers and for the programs of a team, and formats lists
// them all.
//
// The package refuses to decide anything: verdicts, order and wording of
// findings are done before it is called. What nodes said is escaped before it
// reaches a terminal, an XML document, a page or a label, as that medium wants it.
package report

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"

	"preflight/checks"
	"preflight/internal/text"
)

// Style is how text is drawn.
type Style struct {
	Width   int  // columns; 0 means 100
	Color   bool // only on a terminal without NO_COLOR
	Verbose bool // every check with its reason, every difference, all that was seen
	Quiet   bool // verdict and findings only
}

// Text writes the report for a person: the verdict, one block a root cause, the settings
// that were proven, what differs between the nodes and no finding has shown, and a line for
// the checks of each other outcome. Verbose has what these lines count.
func Text(w io.Writer, r checks.Report, style Style) error {
	p := &page{Words: WordsOf(r), style: style}
	p.line("%s  %s", p.colored(r.Verdict, Word(r.Verdict)), p.Conclusion())
	summary := p.Summary()
	if !style.Quiet && !style.Verbose {
		summary = p.summary(p.launched()...) // the checks are counted below
	}
	for _, line := range p.split(summary, 0) {
		p.line("%s", p.faint(line))
	}
	p.findings(r.Findings)
	p.waived(r.Waived)
	switch {
	case style.Verbose && !style.Quiet:
		p.advice(r)
		p.diff(r.Diff)
		p.everything(r)
	case !style.Quiet:
		p.advice(r)
		p.diff(p.Unshown())
		p.inBrief(r)
	case r.Verdict == checks.Unknown: // no exit code is without a reason
		if undecided := p.Undecided(); len(undecided) > 0 {
			p.line("")
			p.reasons(undecided)
		}
	}
	return p.writeTo(w)
}

// everything is what a run has shown besides its findings.
func (p *page) everything(r checks.Report) {
	p.line("")
	p.list("launch", Launched(r))
	p.interconnect(r)
	p.wire(r)
	p.throughput(r.Nodes)
	p.smoke(r.Nodes)
	p.reasons(p.Others())
	p.list("not covered", p.NotCovered())
	p.topologies(r.Nodes)
}

// inBrief has a line for the checks of each outcome that no finding tells of: how many they
// are, where it is not the reason that matters. It is the reason of a remark and, where the
// verdict is unknown, of that.
func (p *page) inBrief(r checks.Report) {
	p.line("")
	p.throughput(r.Nodes) // which was asked for
	p.smoke(r.Nodes)
	type row struct{ label, text string }
	rows := []row{{labels[checks.Pass], ""}}
	for _, passed := range p.Reasons(checks.Pass) {
		if passed.Text == "" {
			rows[0].text = tally([]Reason{passed})
		} else {
			rows = append(rows, row{"passed, but", p.because(passed)})
		}
	}
	unknown, skipped, off := p.Reasons(checks.Unknown), []Reason{}, []Reason{}
	for _, reason := range p.Reasons(checks.Skip) {
		switch {
		case reason.Text == checks.SwitchedOff:
			off = append(off, reason)
		case reason.Text != checks.AllWaived:
			skipped = append(skipped, reason)
		}
	}
	told := map[string]bool{} // above, with nodes and what to do
	for _, unknown := range p.Unknowns() {
		told[unknown.Reason] = true
	}
	switch undecided := p.Undecided(); {
	case r.Verdict == checks.Unknown:
		for _, reason := range undecided {
			if told[reason.Text] {
				reason.Text = ""
			}
			rows = append(rows, row{reason.Label(), p.because(reason)})
			if reason.Verdict == checks.Skip {
				skipped, off = nil, nil // told with their reasons
			}
		}
	case len(unknown) == 1:
		rows = append(rows, row{labels[checks.Unknown], p.because(unknown[0])})
	default:
		rows = append(rows, row{labels[checks.Unknown], tally(unknown)})
	}
	rows = append(rows, row{labels[checks.Skip], tally(skipped)}, row{checks.SwitchedOff, tally(off)})
	if r.Verdict == checks.Pass || r.Verdict == checks.Warn { // else nothing is promised
		rows = append(rows, row{"not covered", p.NotCovered()})
	}
	rows = slices.DeleteFunc(rows, func(one row) bool { return one.text == "" })
	for i, one := range rows {
		if i == len(rows)-1 {
			one.text += " (-v has the rest)"
		}
		p.list(one.label, one.text)
	}
}

type page struct {
	Words
	out   strings.Builder
	style Style
}

// writeTo hands the page out when it is complete: only then it shows what a line begins
// with.
func (p *page) writeTo(w io.Writer) error {
	_, err := io.WriteString(w, unobeyed(p.out.String()))
	return err
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

func (p *page) findings(all []checks.Finding) {
	drift, at := p.Drift(p.style.Verbose)
	for i, f := range all {
		switch {
		case i == at:
			p.drift(drift)
		case f.Verdict != checks.Unknown && !HasChanges(f):
			p.finding(f)
		}
	}
	for _, unknown := range p.Unknowns() {
		p.line("\n%s  could not look  %s", p.colored(checks.Unknown, Word(checks.Unknown)), unknown.Nodes)
		p.field("because", unknown.Reason)
		p.field("for", p.named(unknown.Checks))
		p.wayOut(unknown.Fix, unknown.Notes)
	}
}

func (p *page) finding(f checks.Finding) {
	heading := fmt.Sprintf("%s  %s", text.Escape(f.Check), p.Whom(f))
	if f.Summary != "" {
		heading += ": " + text.Escape(strings.Join(strings.Fields(f.Summary), " "))
	}
	for i, line := range wrap(heading, p.width()-6) {
		if i == 0 {
			p.line("\n%s  %s", p.colored(f.Verdict, Word(f.Verdict)), line)
		} else {
			p.line("      %s", line)
		}
	}
	p.details(f)
}

// details is a finding without its heading.
func (p *page) details(f checks.Finding) {
	p.field("got", f.Got)
	p.field("want", f.Want)
	p.wayOut(f.Fix, f.Notes)
	p.field("symptom", f.WouldSee)
}

func (p *page) wayOut(commands, notes []string) {
	p.commands("fix", commands)
	p.field("note", strings.Join(notes, "\n"))
}

// waived has a line for each finding that a policy does not count: out of the
// verdict is not out of sight.
func (p *page) waived(all []checks.Waived) {
	if len(all) > 0 {
		p.line("")
	}
	for _, w := range all {
		line := fmt.Sprintf("%s  %s: %s (%s)", w.Check, p.Nodes(w.Nodes), w.Summary, Promise(w))
		p.line("%s  %s", p.faint("waived"), text.Escape(strings.Join(strings.Fields(line), " ")))
	}
}

// unwrapped is the width of a page whose reader wraps or searches lines itself.
const unwrapped = 1 << 16

// Details are a finding as text has it, without its heading, not wrapped and not indented.
func Details(f checks.Finding) string {
	p := &page{style: Style{Width: unwrapped}}
	p.wrapped("", f.Summary)
	p.details(f)
	return strings.Join(text.Map(strings.Split(strings.Trim(p.out.String(), "\n"), "\n"), strings.TrimSpace), "\n")
}

// Blocks are findings as text has them, and those that are waived, not wrapped.
func (w Words) Blocks(findings []checks.Finding, waived []checks.Waived) string {
	p := &page{Words: w, style: Style{Width: unwrapped}}
	for _, f := range findings {
		p.finding(f)
	}
	p.waived(waived)
	return p.out.String()
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

// commands writes what is for pasting: it is never wrapped.
func (p *page) commands(label string, all []string) {
	for i, command := range all {
		p.line("  %7s  %s", firstOnly(i, label), text.Escape(command))
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
func (p *page) split(line string, indent int) []string {
	var lines []string
	for paragraph := range strings.SplitSeq(strings.TrimSpace(line), "\n") {
		lines = append(lines, wrap(text.Escape(paragraph), max(p.width()-indent, 20))...)
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

// reasons writes a line for each: the checks, and why.
func (p *page) reasons(all []Reason) {
	for _, r := range all {
		p.list(r.Label(), p.because(r))
	}
}

func (p *page) because(r Reason) string {
	text := p.named(r.Checks)
	if r.Text != "" {
		text += ": " + r.Text
	}
	return text
}

// mostNamed is how many checks are named where it is enough to count them.
const mostNamed = 6

// named are the checks, or how many they are.
func (p *page) named(ids []string) string {
	if p.style.Verbose {
		return strings.Join(ids, ", ")
	}
	return named(ids)
}

func named(ids []string) string {
	if len(ids) > mostNamed {
		return text.Plural(len(ids), "check")
	}
	return strings.Join(ids, ", ")
}

// tally is the checks of some reasons, named where they are few, "" for none.
func tally(all []Reason) string {
	var ids []string
	for _, r := range all {
		ids = append(ids, r.Checks...)
	}
	return named(ids)
}

// list writes a label and lines of text beside it, each of which may be wrapped.
func (p *page) list(label string, texts ...string) {
	for i, text := range texts {
		if text == "" {
			continue
		}
		for n, line := range p.split(text, 14) {
			p.line("%s  %s", p.faint(fmt.Sprintf("%-12s", firstOnly(i+n, label))), line)
		}
	}
}

// entries writes names under a heading, and beside each what it means, which may be wrapped.
func (p *page) entries(rows [][]string) {
	last := len(rows[0]) - 1
	widths := make([]int, last)
	indent := 0
	for i := range widths {
		for _, row := range rows {
			widths[i] = max(widths[i], len(row[i]))
		}
		indent += widths[i] + 2
	}
	for _, row := range rows {
		for n, line := range p.split(row[last], indent) {
			text := ""
			for i, width := range widths {
				text += fmt.Sprintf("%-*s  ", width, firstOnly(n, row[i]))
			}
			p.line("%s%s", text, line)
		}
	}
}

// lineCommand is a command of GitHub's runner: a line that begins with ::NAME … ::, after any blanks.
// [text.Escape] knows the other kind.
//
// Source: actions/runner, commit 079cdb1, src/Runner.Common/ActionCommand.cs, TryParseV2.
var lineCommand = regexp.MustCompile(`(?m)^([ \t]*):(:.*::)`)

// unobeyed is escaped text for a log, its lines as they are and none a command.
func unobeyed(text string) string { return lineCommand.ReplaceAllString(text, `$1\x3a$2`) }

// Shorten cuts text to so many characters, the last of them "…" where it was cut: behind
// a blank or a comma, so that no name is half there, unless the half of it had to go for that.
func Shorten(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	kept := string(runes[:most-1])
	if at := strings.LastIndexAny(kept, " ,"); at+1 >= len(kept)/2 && !strings.ContainsRune(" ,", runes[most-1]) {
		kept = kept[:at+1]
	}
	return kept + "…"
}

// EscapeLines is Escape for text of several lines, which stay lines; printed to a log,
// none is obeyed there.
func EscapeLines(raw string) string {
	lines := strings.Split(strings.Trim(raw, "\n"), "\n")
	return unobeyed(strings.Join(text.Map(lines, text.Escape), "\n"))
}
