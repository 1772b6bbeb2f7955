package report

import (
	"fmt"
	"io"
	"strings"

	"preflight/checks"
)

const (
	// markdownStart is how our summaries begin, unseen on the page; [Wrote] knows them
	// by that, and so does whoever replaces an earlier comment.
	markdownStart = "<!-- preflight report -->\n"
	// mostMarkdown is how many bytes a summary has at most. A comment on GitHub takes
	// 65,536 characters, $GITHUB_STEP_SUMMARY 1 MiB; what is larger is dropped whole.
	mostMarkdown = 65_000
	// mostForTables is how many of them the findings and the waivers take, so that there is
	// room for what mends the first of them.
	mostForTables = 40_000
	// mostInCell is how many characters of one text are written, mostInBlock how many of
	// the commands that mend one finding.
	mostInCell  = 400
	mostInBlock = 4000
)

// MarkdownSummary writes the report in GitHub Flavored Markdown, for
// $GITHUB_STEP_SUMMARY, comments on pull and merge requests: the verdict, a table of
// the findings, the commands that fix them, what is waived, and what differs between the
// nodes, folded.
// It always fits in a comment: what does not is left out, and a remark says so.
//
// Nothing a node said can end a cell, a code block or the page, become a link, an image
// or a mention of somebody, or be taken for HTML.
func MarkdownSummary(w io.Writer, r checks.Report) error {
	s := &summary{page: *pageOf(r, Style{})}
	s.add(markdownStart + "\n## " + words[r.Verdict] + ": " + prose(s.conclusion(r)) + "\n\n" + prose(s.page.summary(r)) + "\n")
	s.table(r)
	for _, f := range r.Findings {
		s.remedy(f)
	}
	s.waivers(r.Waived)
	s.differences(r.Diff)
	s.outcomes(r)
	text := s.out.String()
	if s.left > 0 {
		text += fmt.Sprintf("\n**Cut here:** %s of this report do not fit in a comment; the report as text or JSON has them all.\n", plural(s.left, "part"))
	}
	_, err := io.WriteString(w, text)
	return err
}

// summary is the Markdown as it grows.
type summary struct {
	page
	left int // parts that did not fit
}

// add writes a part of the page that stands or goes as a whole. After the first that
// does not fit none is written, so that nothing is missing in between.
func (s *summary) add(part string) {
	if s.left > 0 || s.out.Len()+len(part) > mostMarkdown {
		s.left++
		return
	}
	s.out.WriteString(part)
}

// table is one row a finding; checks that could not look for one reason share one.
func (s *summary) table(r checks.Report) {
	if len(r.Findings) == 0 {
		return
	}
	s.add("\n" + row("", "check", "nodes", "what", "got", "want") + row("---", "---", "---", "---", "---", "---"))
	var rows []string
	for _, f := range r.Findings {
		if f.Verdict != checks.Unknown {
			rows = append(rows, row(words[f.Verdict], code(f.Check), prose(s.whom(f)), prose(f.Summary), prose(f.Got), prose(f.Want)))
		}
	}
	for _, blind := range s.blind(r.Findings) {
		rows = append(rows, row(words[checks.Unknown], element(strings.Join(blind.checks, ", ")), prose(blind.nodes), prose(blind.reason), "could not look", ""))
	}
	s.rows(rows)
}

// rows ends a table, with a remark where there are more than a page should have.
func (s *summary) rows(rows []string) {
	for i, one := range rows {
		if s.out.Len()+len(one) > mostForTables {
			s.add(fmt.Sprintf("\nand %d more: the report as text or JSON has them all\n", len(rows)-i))
			return
		}
		s.add(one)
	}
}

// waivers is one row a finding that does not count.
func (s *summary) waivers(all []checks.Waived) {
	if len(all) == 0 {
		return
	}
	s.add("\nWaived: these are known, and do not count.\n\n" + row("check", "nodes", "what", "why", "owner", "until") + row("---", "---", "---", "---", "---", "---"))
	var rows []string
	for _, w := range all {
		rows = append(rows, row(code(w.Check), prose(s.nodes(w.Nodes)), prose(w.Summary), prose(w.Reason), prose(w.Owner), prose(w.Until)))
	}
	s.rows(rows)
}

// remedy is the commands that fix what was found, to be copied, and what training would
// say without them.
func (s *summary) remedy(f checks.Finding) {
	if len(f.Fix) == 0 && f.WouldSee == "" {
		return
	}
	text := "\n**" + entities(f.Check) + "** on " + prose(s.whom(f)) + ":\n"
	if len(f.Fix) > 0 {
		text += "\n" + block("sh", wholeCommands(f.Fix))
	}
	if f.WouldSee != "" {
		text += "\nor see: " + code(f.WouldSee) + "\n"
	}
	s.add(text)
}

// differences are the facts on which the nodes differ, the majority first.
func (s *summary) differences(diffs []checks.FactDiff) {
	diffs = checks.FoldSiblings(foldEntries(diffs))
	if len(diffs) == 0 {
		return
	}
	text := details(plural(len(diffs), "difference")+" between the nodes") +
		row("fact", "most nodes", "others") + row("---", "---", "---")
	for _, d := range diffs[:min(len(diffs), mostDifferences)] {
		var others []string
		for _, g := range d.Groups[1:] {
			others = append(others, s.group(d.Fact, g, d.Groups[0]))
		}
		text += row(code(d.Fact), prose(s.group(d.Fact, d.Groups[0], d.Groups[1])), prose(strings.Join(others, "; ")))
	}
	if more := len(diffs) - mostDifferences; more > 0 {
		text += fmt.Sprintf("\nand %d more\n", more)
	}
	s.add(text + detailsEnd)
}

// outcomes says of every check without a finding what became of it, and names them all:
// it is folded.
func (s *summary) outcomes(r checks.Report) {
	var lines []string
	if passed := outcomes(r, checks.Pass); len(passed) > 0 {
		lines = append(lines, "- passed: "+whole(strings.Join(passed, ", ")))
	}
	for _, group := range byReason(r, checks.Unknown) {
		lines = append(lines, "- not complete: "+whole(strings.Join(group.checks, ", "))+": "+prose(group.reason))
	}
	for _, group := range byReason(r, checks.Skip) {
		if group.reason == checks.AllWaived {
			continue // told in a table
		}
		lines = append(lines, "- not judged: "+whole(strings.Join(group.checks, ", "))+": "+prose(group.reason))
	}
	lines = append(lines, "- not covered: "+prose(checks.NotCovered))
	s.add(details("the other checks") + strings.Join(lines, "\n") + "\n" + detailsEnd)
}

const detailsEnd = "\n</details>\n"

// details begins a part that is folded; the blank line has Markdown go on inside.
func details(title string) string {
	return "\n<details><summary>" + title + "</summary>\n\n"
}

// row is one of a table; its cells are Markdown already.
func row(cells ...string) string { return "| " + strings.Join(cells, " | ") + " |\n" }
