package report

import (
	"fmt"
	"io"
	"strings"

	"preflight/checks"
)

const (
	// githubStart is how our annotations begin; [Wrote] knows them by that.
	githubStart = "::notice title=preflight::"
	// mostAnnotations is how many of each kind GitHub shows of one step. It drops the
	// others without a word (docs.github.com, "Usage limits").
	mostAnnotations = 10
	// longestAnnotation is how many characters of one are written. GitHub takes 64 KB.
	longestAnnotation = 4000
)

// GitHub writes the report as workflow commands, which a step of GitHub Actions turns
// into annotations when they come on its standard output: a notice with the verdict,
// then an error for each finding that failed or could not look, and a warning for each
// warning, which is an error where warnings fail the run. Where there are more of a kind
// than GitHub shows, the last one says how many.
//
// Escaping is that of actions/toolkit v1 (packages/core/src/command.ts): in data %, CR
// and LF, in properties also : and the comma. A command is one line, so no text of a node
// can begin another.
func GitHub(w io.Writer, r checks.Report) error {
	p := &page{style: Style{Width: unwrapped}, fleet: len(r.Nodes)}
	var errors, warnings []annotation
	for _, f := range r.Findings {
		if f.Verdict == checks.Unknown {
			continue
		}
		body := &page{style: p.style}
		body.told(f)
		one := annotation{fmt.Sprintf("preflight: %s on %s", f.Check, p.nodes(f.Nodes)), unindented(body.out.String())}
		if f.Verdict == checks.Fail || warningsFail(r) {
			errors = append(errors, one)
		} else {
			warnings = append(warnings, one)
		}
	}
	for _, blind := range p.blind(r.Findings) {
		errors = append(errors, annotation{"preflight: could not look at " + blind.nodes,
			blind.reason + "\nfor " + strings.Join(blind.checks, ", ")})
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s%s\n", githubStart, commandData(words[r.Verdict]+": "+p.conclusion(r)+"\n"+p.summary(r)))
	annotate(&out, "error", errors)
	annotate(&out, "warning", warnings)
	_, err := io.WriteString(w, out.String())
	return err
}

// annotation is one before it is escaped.
type annotation struct{ title, text string }

// annotate writes as many as are shown.
func annotate(out *strings.Builder, level string, all []annotation) {
	if more := len(all) - mostAnnotations; more > 0 {
		all = append(all[:mostAnnotations-1:mostAnnotations-1], annotation{"preflight",
			fmt.Sprintf("and %s more: GitHub shows no more than %d, the report has them all", plural(more+1, level), mostAnnotations)})
	}
	for _, one := range all {
		fmt.Fprintf(out, "::%s title=%s::%s\n", level, commandProperty(one.title), commandData(one.text))
	}
}

// unindented takes away the columns in which a page sets its fields.
func unindented(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "\n")
}

func commandData(text string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(escapedLines(shortened(text, longestAnnotation)))
}

func commandProperty(text string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(commandData(text))
}
