// SPDX-License-Identifier: Apache-2.0

// Package report renders a finished report: as text for a person who waits to launch, and as JSON
// for programs. It also has the words that all formats share. Its subpackages html and ci render
// the report for browsers and for a team's programs, and formats lists all formats.
//
// The package decides nothing: verdicts and findings are complete before it is called. It escapes
// the nodes' text as a terminal, an XML document, a page or a label needs.
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
	"preflight/checks/fix"
	"preflight/internal/text"
)

// Style is how text is drawn.
type Style struct {
	Width   int  // columns; 0 means 100
	Color   bool // use colors; true only on a terminal without NO_COLOR
	Verbose bool // print every check with its reason, every difference, and all facts about the network and the GPUs
	Quiet   bool // print only the verdict and the problems
}

// Text writes the report for a person. It begins with a line about the run, the verdict, a table of
// the problems and a block for each problem. Then come counts, the reasons of unknown checks, what
// was not tested, the nodes that are usable now, and the verdict again. With Verbose, Text lists
// the checks instead of counting them. With Quiet, it ends after the blocks.
func Text(w io.Writer, r checks.Report, style Style) error {
	p := &page{Words: WordsOf(r), style: style}
	summary := p.summary(p.launched()...)
	if style.Quiet {
		summary = p.Overview() // because nothing below counts the checks
	}
	for _, line := range append([]string{summary}, p.Remarks()...) {
		p.wrappedFaint(line)
	}
	p.line("")
	p.verdict()
	problems := p.Problems(style.Verbose)
	if len(problems) == 1 {
		problems[0].Mark = "" // there is no table that the mark could link to
	} else if len(problems) > 1 {
		p.problems(problems)
	}
	for _, one := range problems {
		p.problem(one)
	}
	p.waived(r.Waived)
	if style.Quiet {
		if undecided := p.Undecided(); r.Verdict == checks.Unknown && len(undecided) > 0 { // exit code 2 always comes with a reason
			p.line("")
			p.reasons(undecided)
		}
		return p.writeTo(w)
	}
	p.advice(r)
	p.differences()
	if style.Verbose {
		p.topologies(r.Nodes)
	}
	p.line("")
	if style.Verbose {
		p.everything(r)
	} else {
		p.inBrief(r)
	}
	if len(problems) > 0 { // without problems the first verdict is still visible
		p.line("")
		p.verdict()
	}
	return p.writeTo(w)
}

// verdict writes the line with the verdict.
func (p *page) verdict() {
	p.line("%s  %s", p.colored(p.report.Verdict, Word(p.report.Verdict)), p.Conclusion())
}

// everything lists what a run shows in addition to its problems.
func (p *page) everything(r checks.Report) {
	p.list("launch", Launched(r))
	p.interconnect(r)
	p.wire(r)
	p.throughput(r.Nodes)
	p.smoke(r.Nodes)
	p.list(labelChecks, p.tally())
	p.reasons(p.Others())
	p.closing()
}

// inBrief counts the checks and prints why some are unknown. If only a few checks ran, inBrief
// names each check.
func (p *page) inBrief(r checks.Report) {
	p.throughput(r.Nodes) // the user requested it
	p.smoke(r.Nodes)
	p.list(labelChecks, p.tally())
	if len(r.Checks)-len(SwitchedOff(r)) <= mostNamed {
		p.reasons(slices.DeleteFunc(p.Others(), func(reason Reason) bool { return reason.Text == checks.SwitchedOff }))
		p.closing()
		return
	}
	p.reasons(p.open())
	p.list(labelUnreached, p.withoutUnreached())
	for _, passed := range p.Reasons(checks.Pass) {
		if passed.Text = p.besidesUnreached(passed.Text); passed.Text != "" {
			p.list(labelRemark, p.because(passed))
		}
	}
	p.closing()
}

// open returns the reasons of unknown checks that no block shows. If no check has a result, open
// returns the reasons for that.
func (p *page) open() []Reason {
	shown := map[string]bool{}
	for _, unknown := range p.Unknowns() {
		shown[unknown.Summary] = true
	}
	all := p.Reasons(checks.Unknown)
	if p.report.Verdict == checks.Unknown {
		all = p.Undecided()
	}
	for i, reason := range all {
		all[i].Text = cmp.Or(p.besidesUnreached(reason.Text), reason.Text)
		if shown[reason.Text] {
			all[i].Text = "the same reason as above"
		}
	}
	return all
}

// closing prints the last rows of every report that is not quiet: what was not tested, the usable
// nodes, and how to read more.
func (p *page) closing() {
	p.list(LabelNotTested, p.NotCovered())
	p.list(LabelUsable, p.Usable())
	more := ""
	if ids := p.failingChecks(); len(ids) > 0 {
		more = "preflight checks " + ids[0] + " explains a check"
	}
	if !p.style.Verbose {
		more = strings.TrimPrefix(more+"; -v lists every check", "; ")
	}
	p.list(labelMore, more)
}

type page struct {
	Words
	out   strings.Builder
	style Style
	flush bool // labels are not aligned, for readers other than a terminal
}

// writeTo writes the page once it is complete, because escaping needs whole lines.
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

// problem writes the block of a row of the table.
func (p *page) problem(one Problem) {
	switch {
	case one.Checks != nil:
		p.heading(one.Mark, one.Verdict, p.Nodes(one.Nodes))
		p.field(LabelReason, one.Summary)
		p.field(LabelAffects, p.named(one.Checks))
		p.wayOut(one.Finding)
	case one.Changes != nil:
		p.drift(one)
	default:
		p.finding(one.Mark, one.Finding)
	}
}

// finding writes the block of a finding. Pass "" as its mark if there is no table of problems.
func (p *page) finding(mark string, f checks.Finding) {
	heading := fmt.Sprintf("%s  %s", text.Escape(f.Check), p.Whom(f))
	if f.Summary != "" {
		heading += ": " + text.Escape(oneLine(f.Summary))
	}
	p.heading(mark, f.Verdict, heading)
	if p.countsElsewhere(f) {
		p.field(LabelCause, p.causeOf(f))
	}
	p.details(f)
}

// heading writes the first line of a block: the mark, the verdict, and the nodes or the summary.
func (p *page) heading(mark string, verdict checks.Verdict, about string) {
	start := Word(verdict)
	if mark != "" {
		start = mark + "  " + start
	}
	for i, line := range Wrap(about, p.width()-len(start)-2) {
		if i == 0 {
			p.line("\n%s  %s", p.colored(verdict, start), line)
		} else {
			p.line("%s%s", strings.Repeat(" ", len(start)+2), line)
		}
	}
}

// oneLine returns text without its line breaks.
func oneLine(words string) string { return strings.Join(strings.Fields(words), " ") }

// details writes a finding without its heading.
func (p *page) details(f checks.Finding) {
	p.field(LabelGot, f.Got)
	p.field(LabelWant, f.Want)
	p.wayOut(f)
	p.faintField(LabelWouldSee, f.WouldSee)
}

// wayOut writes the commands of a finding under their roles, and its notes.
func (p *page) wayOut(f checks.Finding) {
	steps := Steps(f)
	for i, step := range steps {
		label := step.Label()
		if !p.flush && i > 0 && step.Role == steps[i-1].Role && (step.Role == fix.Look || step.Role == fix.Fix) {
			label = ""
		}
		p.labelled(label, text.Escape(step.Command)) // never wrapped, so that it can be pasted
	}
	p.field(LabelNote, strings.Join(f.Notes, "\n"))
}

// waived writes a line for each waived finding, so that it stays visible although it does not
// count.
func (p *page) waived(all []checks.Waived) {
	if len(all) > 0 {
		p.line("")
	}
	for _, w := range all {
		line := fmt.Sprintf("%s  %s: %s (%s)", w.Check, p.Nodes(w.Nodes), w.Summary, Promise(w))
		p.line("%s  %s", p.faint(labelWaived), text.Escape(oneLine(line)))
	}
}

// unwrapped is the width of a page for a program that wraps or searches lines itself.
const unwrapped = 1 << 16

// Details returns a finding as text without its heading, neither wrapped nor indented.
func Details(f checks.Finding) string {
	p := &page{style: Style{Width: unwrapped}, flush: true}
	p.wrapped("", f.Summary)
	p.details(f)
	return strings.Join(text.Map(strings.Split(strings.Trim(p.out.String(), "\n"), "\n"), strings.TrimSpace), "\n")
}

// Blocks returns findings and waived findings as text, not wrapped.
func (w Words) Blocks(findings []checks.Finding, waived []checks.Waived) string {
	p := &page{Words: w, style: Style{Width: unwrapped}}
	for _, f := range findings {
		p.finding("", f)
	}
	p.waived(waived)
	return p.out.String()
}

// These are the columns of a block. Labels are indented, and all values start in the same column.
const (
	blockIndent = 3
	labelWidth  = len(LabelWouldSee)
	valueColumn = blockIndent + labelWidth + 2
)

// field writes a value with its label. Further lines of the value are indented below the first.
func (p *page) field(label, value string) {
	if value == "" {
		return
	}
	for i, line := range p.split(value, valueColumn) {
		p.labelled(firstOnly(i, label), line)
	}
}

// faintField is like field but in faint colour, for what is read last.
func (p *page) faintField(label, value string) {
	if value == "" {
		return
	}
	for i, line := range p.split(value, valueColumn) {
		p.labelled(p.faint(padded(firstOnly(i, label), labelWidth)), p.faint(line))
	}
}

// labelled writes one line of a block, which begins with a label.
func (p *page) labelled(label, line string) {
	if p.flush {
		p.line("%s  %s", label, line)
		return
	}
	p.line("%s%s  %s", strings.Repeat(" ", blockIndent), padded(label, labelWidth), line)
}

// commands writes lines for pasting, which are never wrapped.
func (p *page) commands(label string, all []string) {
	for i, command := range all {
		p.labelled(firstOnly(i, label), text.Escape(command))
	}
}

// columnsOf returns how many columns text takes on a terminal.
func columnsOf(text string) int { return lipgloss.Width(text) }

// padded adds spaces to text up to a width in columns.
func padded(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-columnsOf(text)))
}

// firstOnly returns the label for the first line of a field, and "" for the lines below.
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

// wrappedFaint writes a paragraph in faint colour.
func (p *page) wrappedFaint(words string) {
	for _, line := range p.split(words, 0) {
		p.line("%s", p.faint(line))
	}
}

// split wraps text to the page and leaves indent columns free.
func (p *page) split(line string, indent int) []string {
	var lines []string
	for paragraph := range strings.SplitSeq(strings.TrimSpace(line), "\n") {
		lines = append(lines, Wrap(text.Escape(paragraph), max(p.width()-indent, 20))...)
	}
	return lines
}

// Wrap breaks text only at spaces, so that check IDs, paths and options keep their hyphens. A word
// wider than the page stays whole so that it can be pasted.
func Wrap(text string, width int) []string {
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

// reasons writes a line for each reason with its checks.
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

// mostNamed is the maximum number of checks that are named. A larger number of checks is only
// counted.
const mostNamed = 6

// named returns the IDs of checks, or the number of checks if there are many and the style is not
// verbose.
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

// list writes a label and the texts next to the label. The texts may be wrapped.
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

// entries writes rows as columns. The last column says what the other columns mean, and it may be
// wrapped.
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

// lineCommand matches a command of GitHub's runner: a line that begins with ::NAME … ::, after any
// white space. [text.Escape] handles the other kind of command.
//
// Source: actions/runner, commit 079cdb1, src/Runner.Common/ActionCommand.cs, TryParseV2.
var lineCommand = regexp.MustCompile(`(?m)^([ \t]*):(:.*::)`)

// unobeyed escapes text for a log, so that no line is a runner command.
func unobeyed(text string) string { return lineCommand.ReplaceAllString(text, `$1\x3a$2`) }

// Shorten cuts text to a number of characters and ends it with "…" if it was cut. It cuts after a
// space or a comma so that no name is split, unless that would drop more than half of the text.
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

// EscapeLines escapes text of several lines. In a log, none of the lines can be a runner command.
func EscapeLines(raw string) string {
	lines := strings.Split(strings.Trim(raw, "\n"), "\n")
	return unobeyed(strings.Join(text.Map(lines, text.Escape), "\n"))
}
