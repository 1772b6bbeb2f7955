// SPDX-License-Identifier: Apache-2.0

package ci

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"preflight/checks"
	"preflight/internal/text"
	"preflight/report"
)

const (
	// markdownMark begins every summary and is invisible on the page. A script that replaces an
	// earlier comment recognizes it by this mark.
	markdownMark = "<!-- preflight report -->\n"
	// mostMarkdown is the maximum size of a summary in bytes. GitHub allows 65,536 characters for a
	// comment and 1 MiB for $GITHUB_STEP_SUMMARY. GitHub drops a larger text completely.
	mostMarkdown = 65_000
	// mostForTables is the maximum size in bytes of the tables of problems and waivers. The rest of
	// mostMarkdown is for the commands of the first problems.
	mostForTables = 40_000
	// mostInCell is the maximum number of characters of one text. mostInBlock is the maximum number
	// of characters of the commands of one problem.
	mostInCell  = 400
	mostInBlock = 4000
)

// Markdown writes the report in GitHub Flavored Markdown, for $GITHUB_STEP_SUMMARY and for comments
// on pull requests and merge requests. The page has the verdict, a table of the problems with their
// commands, the waived findings, and the differences between the nodes, which are folded. The page
// always fits in a comment. If parts are left out, a remark says so.
//
// A node's text cannot end a cell, a code block or the page. It cannot become a link, an image, a
// mention or HTML.
func Markdown(w io.Writer, r checks.Report) error {
	s := &summary{Words: report.WordsOf(r)}
	s.add(markdownMark + "\n## " + report.Word(r.Verdict) + ": " + prose(s.Conclusion()) + "\n\n" + prose(s.Overview()) + "\n")
	for _, remark := range s.Remarks() {
		s.add("\n" + prose(remark) + "\n")
	}
	problems := s.Problems(false)
	s.table(problems)
	for _, p := range problems {
		if p.Changes != nil {
			s.add("\n**" + entities(p.Check) + "**: " + p.Summary + "\n\n")
			s.changes(p.Changes[:min(len(p.Changes), report.MostChanges)])
			if more := len(p.Changes) - report.MostChanges; more > 0 {
				s.add(fmt.Sprintf("\nand %d more, in the text and JSON reports\n", more))
			}
		}
		s.remedy(p)
	}
	s.waivers(r.Waived)
	s.differences(s.Unshown())
	s.others()
	return s.writeTo(w, "part", "this report", "the text and JSON reports have all of them")
}

// ChangesMarkdown writes the same changes as [report.ChangesText], as a table in GitHub Flavored
// Markdown. A node's text never becomes markup. Rows that do not fit in a comment are left out, and
// a remark says how many.
func ChangesMarkdown(w io.Writer, c report.Changed) error {
	s := &summary{}
	s.add(markdownMark)
	rows := c.Rows(false)
	if len(rows) == 0 {
		text := c.Unchanged()
		s.add("\n" + strings.ToUpper(text[:1]) + text[1:] + ".\n")
	} else {
		s.add("\n")
		s.changes(rows)
	}
	if unseen := c.Unseen(); unseen != nil {
		s.add("\n" + row("nodes", "not compared", "why") + row("---", "---", "---"))
		for _, u := range unseen {
			s.add(row(prose(s.Nodes(u.Nodes)), prose(u.What), prose(u.Why)))
		}
	}
	return s.writeTo(w, "row", "these changes", "preflight diff prints all of them")
}

// changes writes a table with one row for each change.
func (s *summary) changes(rows []report.Row) {
	header, cells := s.ChangeTable(rows)
	fact := slices.Index(header, "fact")
	s.add(row(header...) + strings.Repeat("| --- ", len(header)) + "|\n")
	for _, texts := range cells {
		written := text.Map(texts, prose)
		if texts[fact] != "" {
			written[fact] = code(texts[fact])
		}
		s.add(row(written...))
	}
}

type summary struct {
	report.Words
	out  strings.Builder
	left int // parts that did not fit
}

// writeTo writes the page, and says how many parts did not fit.
func (s *summary) writeTo(w io.Writer, part, of, wayOut string) error {
	if s.left > 0 {
		fmt.Fprintf(&s.out, "\n**Cut here:** %s of %s do not fit in a comment; %s.\n", text.Plural(s.left, part), of, wayOut)
	}
	_, err := io.WriteString(w, s.out.String())
	return err
}

// add writes a part of the page if all of it fits. After the first part that does not fit, add
// writes no further parts, so that no part in the middle is missing.
func (s *summary) add(part string) {
	if s.left > 0 || s.out.Len()+len(part) > mostMarkdown {
		s.left++
		return
	}
	s.out.WriteString(part)
}

// table writes one row for each problem.
func (s *summary) table(problems []report.Problem) {
	if len(problems) == 0 {
		return
	}
	s.add("\n" + row("", "check", "nodes", "problem", "got", "want") + row("---", "---", "---", "---", "---", "---"))
	s.rows(text.Map(problems, func(p report.Problem) string {
		check := code(p.Check)
		if p.Checks != nil {
			check = element(strings.Join(p.Checks, ", "))
		}
		return row(report.Word(p.Verdict), check, prose(s.Whom(p.Finding)), prose(p.Summary), prose(p.Got), prose(p.Want))
	}))
}

// rows ends a table. If there are too many rows, it says how many are left out.
func (s *summary) rows(rows []string) {
	for i, one := range rows {
		if s.out.Len()+len(one) > mostForTables {
			s.add(fmt.Sprintf("\nand %d more, in the text and JSON reports\n", len(rows)-i))
			return
		}
		s.add(one)
	}
}

func (s *summary) waivers(all []checks.Waived) {
	if len(all) == 0 {
		return
	}
	s.add("\nWaived: these findings are known and do not count.\n\n" + row("check", "nodes", "problem", "why it is waived", "owner", "until") + row("---", "---", "---", "---", "---", "---"))
	s.rows(text.Map(all, func(w checks.Waived) string {
		return row(code(w.Check), prose(s.Nodes(w.Nodes)), prose(w.Summary), prose(w.Reason), prose(w.Owner), prose(w.Until))
	}))
}

// remedy writes the commands of a problem for copying, the notes, and what training would print.
// Commands that cure the problem together form one block. Each alternative has its own block.
func (s *summary) remedy(p report.Problem) {
	if len(p.Fix)+len(p.Notes) == 0 && p.WouldSee == "" {
		return
	}
	md := "\n**" + entities(p.Name()) + "** on " + prose(s.Whom(p.Finding)) + ":\n"
	room, left := mostInBlock, 0
	for _, paste := range report.Pastes(report.Steps(p.Finding)) {
		fitting := 0
		for fitting < len(paste.Commands) && len(paste.Commands[fitting]) <= room {
			room -= len(paste.Commands[fitting])
			fitting++
		}
		if fitting > 0 {
			md += "\n" + paste.Label + ":\n\n" + block(strings.Join(paste.Commands[:fitting], "\n"))
		}
		if fitting < len(paste.Commands) { // do not cut a command, because a user could run the first part by mistake
			room, left = 0, left+len(paste.Commands)-fitting
		}
	}
	if left > 0 {
		md += fmt.Sprintf("\nand %s, in the text and JSON reports\n", text.Plural(left, "more command"))
	}
	for _, note := range p.Notes {
		md += "\n" + report.LabelNote + ": " + prose(note) + "\n"
	}
	if p.WouldSee != "" {
		md += "\n" + report.LabelWouldSee + ": " + code(p.WouldSee) + "\n"
	}
	s.add(md)
}

// differences writes a folded table of the facts on which the nodes differ and that no problem
// explains.
func (s *summary) differences(diffs []checks.FactDiff) {
	if len(diffs) == 0 {
		return
	}
	header, rows := s.DifferenceTable(diffs[:min(len(diffs), report.MostDifferences)], false)
	text := details(text.Plural(len(diffs), "difference")+" between the nodes that no problem explains") +
		row(text.Map(header, prose)...) + row("---", "---", "---")
	for _, cells := range rows {
		text += row(code(cells[0]), prose(cells[1]), prose(cells[2]))
	}
	if more := len(diffs) - report.MostDifferences; more > 0 {
		text += fmt.Sprintf("\nand %d more\n", more)
	}
	s.add(text + detailsEnd)
}

// others writes a folded list of all checks without a finding, with their outcomes.
func (s *summary) others() {
	var lines []string
	for _, one := range s.Others() {
		line := "- " + one.Label() + ": " + whole(strings.Join(one.Checks, ", "))
		if one.Text != "" {
			line += ": " + prose(one.Text)
		}
		lines = append(lines, line)
	}
	if usable := s.Usable(); usable != "" {
		lines = append(lines, "- "+report.LabelUsable+": "+prose(usable))
	}
	if left := s.NotCovered(); left != "" {
		lines = append(lines, "- "+report.LabelNotTested+": "+prose(left))
	}
	s.add(details("the other checks") + strings.Join(lines, "\n") + "\n" + detailsEnd)
}

const detailsEnd = "\n</details>\n"

// details begins a folded part. After the blank line, the text inside is parsed as Markdown again.
func details(title string) string {
	return "\n<details><summary>" + title + "</summary>\n\n"
}

// row returns one row of a table. Its cells are already Markdown.
func row(cells ...string) string { return "| " + strings.Join(cells, " | ") + " |\n" }

// prose returns text for a line of Markdown, cut if it is long. The text may contain a node's text.
func prose(text string) string { return whole(report.Shorten(text, mostInCell)) }

// whole is like prose but does not cut the text. It puts words that GitHub or GitLab would turn
// into links, mentions or images into code elements, where they remain plain text.
func whole(words string) string {
	return strings.Join(text.Map(strings.Split(words, " "), func(word string) string {
		if isCalled(word) {
			return element(word)
		}
		return entities(word)
	}), " ")
}

// isCalled reports whether GitHub or GitLab could turn a word into a link, a mention or an emoji.
// Examples are user@w1, #1, www.h, http://h, w1:100: (an emoji), and [issue:1] on GitLab.
func isCalled(word string) bool {
	colons := strings.Count(word, ":")
	return strings.ContainsAny(word, "@#") || strings.Contains(strings.ToLower(word), "www.") ||
		colons > 1 || colons == 1 && (strings.Contains(word, "://") || strings.Contains(word, "["))
}

// code returns text as inline code, cut if it is long.
func code(text string) string { return element(report.Shorten(text, mostInCell)) }

// element is like code but does not cut the text. Unlike a code span, an element can hold any text,
// including backticks and the bar in a table.
func element(text string) string { return "<code>" + entities(text) + "</code>" }

// linking escapes the text that becomes a link even inside a code element.
var linking = strings.NewReplacer("://", "&#58;//", "www.", "www&#46;", "WWW.", "WWW&#46;")

// entities escapes text for a line of Markdown. Line breaks become <br>, which a cell can hold.
func entities(words string) string {
	lines := strings.Split(report.EscapeLines(words), "\n")
	return linking.Replace(strings.Join(text.Map(lines, references), "<br>"))
}

// references replaces the characters of a line that would be markup with character references. It
// does not change other characters, because many people read the summary as source text.
func references(line string) string {
	var out strings.Builder
	runes := []rune(line)
	for i, r := range runes {
		if isMarkup(runes, i) {
			fmt.Fprintf(&out, "&#%d;", r)
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}

// isMarkup reports whether a character has a meaning in Markdown, HTML or GitHub at its position in
// a line. An underscore within a word has none. A bracket has a meaning only before the part that
// makes it a link, because preflight's pages define no name to which [name] could refer.
//
// Source: GitHub Flavored Markdown 0.29, 6.4 "Emphasis and strong emphasis", rules 2 and 6, and 6.6
// "Links"; GitLab's [[page]] is the doubled one.
func isMarkup(line []rune, i int) bool {
	at := func(i int) rune {
		if i < 0 || i >= len(line) {
			return 0
		}
		return line[i]
	}
	switch line[i] {
	case '\\', '`', '*', '<', '#', '|', '~', '&', '$', '@':
		return true
	case '[':
		return at(i-1) == '!' || at(i+1) == '[' || at(i+1) == '^'
	case ']':
		return strings.ContainsRune("([:", at(i+1))
	case '_':
		first, last := i, i
		for at(first-1) == '_' {
			first--
		}
		for at(last+1) == '_' {
			last++
		}
		return !isWordly(at(first-1)) || !isWordly(at(last+1))
	}
	return false
}

// isWordly reports whether a character is a letter or a digit.
func isWordly(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// block returns commands in a code fence that is longer than any sequence of backticks in the
// commands.
func block(text string) string {
	text = report.EscapeLines(text)
	longest := 0
	for run := range strings.FieldsFuncSeq(text, func(r rune) bool { return r != '`' }) {
		longest = max(longest, len(run))
	}
	fence := strings.Repeat("`", max(longest+1, 3))
	return fence + "sh\n" + text + "\n" + fence + "\n"
}
