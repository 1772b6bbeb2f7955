// SPDX-License-Identifier: Apache-2.0

package ci

import (
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/internal/text"
	"preflight/report"
)

const (
	// mostAnnotations is how many annotations of each kind GitHub shows for one step. GitHub
	// silently drops the others (docs.github.com, "Usage limits").
	mostAnnotations = 10
	// longestTitle is the maximum number of characters written for a title. GitHub allows 255.
	longestTitle = 200
	// longestAnnotation is the maximum number of characters written for an annotation. GitHub
	// allows 64 KB.
	longestAnnotation = 4000
)

// GitHub writes the report as workflow commands, which GitHub Actions turns into annotations if a
// step prints them. There is a notice with the verdict, an error for each failure and each unknown,
// and a warning for each warning. If warnings fail the run, each warning becomes an error. If the
// exit code is not 0 and no finding explains the exit code, as after an interruption, GitHub adds
// an error that explains it. If there are more annotations of a kind than GitHub shows, the last
// annotation says how many are missing.
//
// The escaping is the same as in actions/toolkit v1 (packages/core/src/command.ts): data escapes %,
// CR and LF, and properties also escape the colon and the comma. A command is one line, so a node's
// text cannot begin another command.
func GitHub(w io.Writer, r checks.Report) error {
	words := report.WordsOf(r)
	var errors, warnings []annotation
	add := func(f checks.Finding, title, details string) {
		if one := (annotation{"preflight: " + title + " on " + words.Whom(f), details, f.At}); f.Verdict != checks.Warn || r.Strict {
			errors = append(errors, one)
		} else {
			warnings = append(warnings, one)
		}
	}
	for _, p := range words.Problems(false) {
		switch {
		case p.Checks != nil:
			add(p.Finding, "unknown", report.Details(p.Finding)+"\n"+report.LabelAffects+"  "+strings.Join(p.Checks, ", "))
		case p.Changes != nil: // an annotation has no table, but each part lists its changes
			for _, f := range p.Parts {
				add(f, f.Check, report.Details(f))
			}
		default:
			add(p.Finding, p.Check, report.Details(p.Finding))
		}
	}
	if r.ExitCode != 0 && len(errors) == 0 { // without this annotation nothing would say why the run failed
		errors = append(errors, annotation{title: "preflight", text: words.Conclusion() + "\n" + words.Unfinished()})
	}
	waived := text.Map(r.Waived, func(w checks.Waived) annotation {
		return annotation{fmt.Sprintf("preflight: waived: %s on %s", w.Check, words.Nodes(w.Nodes)), w.Summary + "\nwaived " + report.Promise(w), w.At}
	})
	var out strings.Builder
	fmt.Fprintf(&out, "::notice title=preflight::%s\n", commandData(report.Word(r.Verdict)+": "+words.Conclusion()+"\n"+words.Summary()))
	annotate(&out, "error", errors, mostAnnotations)
	annotate(&out, "warning", warnings, mostAnnotations)
	annotate(&out, "notice", waived, mostAnnotations-1) // one notice is already written
	_, err := io.WriteString(w, out.String())
	return err
}

// annotation is an annotation before escaping. at is the place where GitHub shows it, "FILE:LINE".
type annotation struct{ title, text, at string }

func annotate(out *strings.Builder, level string, all []annotation, most int) {
	if more := len(all) - most; more > 0 {
		all = append(all[:most-1:most-1], annotation{"preflight",
			fmt.Sprintf("and %s: GitHub shows at most %d, the report has all of them", text.Plural(more+1, "more "+level), mostAnnotations), ""})
	}
	for _, one := range all {
		fmt.Fprintf(out, "::%s %stitle=%s::%s\n", level, inCheckout(one.at), commandProperty(report.Shorten(one.title, longestTitle)), commandData(one.text))
	}
}

// inCheckout returns the properties that show an annotation at its place. It returns "" if the
// place is not below the working directory, because GitHub knows files by their path in the
// repository.
func inCheckout(at string) string {
	colon := strings.LastIndexByte(at, ':')
	if colon < 0 {
		return ""
	}
	file, line := path.Clean(at[:colon]), at[colon+1:]
	if _, err := strconv.ParseUint(line, 10, 32); err != nil || path.IsAbs(file) || file == ".." || strings.HasPrefix(file, "../") {
		return ""
	}
	return "file=" + commandProperty(file) + ",line=" + line + ","
}

func commandData(text string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(report.EscapeLines(report.Shorten(text, longestAnnotation)))
}

func commandProperty(text string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(commandData(text))
}
