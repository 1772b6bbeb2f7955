// SPDX-License-Identifier: Apache-2.0

package ci

import (
	"fmt"
	"io"
	"strings"

	"preflight/checks"
	"preflight/internal/text"
	"preflight/report"
)

const (
	// longestStatus is how many characters the text of a status line has at most: NRPE 2 passes on
	// 1,024 bytes of a plugin's output, including performance data.
	longestStatus = 600
	// mostFindings is how many findings the line has, and longestNodes and longestCause how many
	// characters the nodes and the cause of each may have.
	mostFindings = 6
	longestNodes = 60
	longestCause = 120
)

// Nagios writes one status line as Nagios, Icinga, Naemon and Checkmk read it from a plugin, with
// performance data after the bar:
//
//	PREFLIGHT CRITICAL - this launch will not work: 1 problem on w2: w2: /dev/shm is too small: 64 MiB (shm-size) | nodes=2;;;0 …
//
// After the verdict come the findings in the order of the text, each with its nodes, cause and
// check.
//
// The performance data is the number of nodes, of reached nodes, of checks that passed, failed,
// warned and are unknown, and of waived findings, and the time of the run in seconds. The maximum
// of a count is the number of things counted. The form is that of the Monitoring Plugins'
// development guidelines.
//
// preflight's exit codes are not those of a plugin: 1 means failed and 2 unknown. A plugin must map
// them: 0 stays 0 (or becomes 1, WARNING, if the line begins with PREFLIGHT WARNING), 1 becomes 2,
// CRITICAL, and 2 becomes 3, UNKNOWN:
//
//	line=$(preflight judge run.json --format nagios); code=$?; echo "$line"
//	case "$code $line" in "0 PREFLIGHT WARNING"*) exit 1;; 0*) exit 0;; 1*) exit 2;; *) exit 3;; esac
func Nagios(w io.Writer, r checks.Report) error {
	words := report.WordsOf(r)
	found := causes(words, r)
	text := words.Conclusion()
	if more := len(found) - mostFindings; more > 0 {
		found = append(found[:mostFindings], fmt.Sprintf("and %d more", more))
	}
	if len(found) > 0 {
		text += ": " + strings.Join(found, "; ")
	}
	waived := ""
	if len(r.Waived) > 0 {
		waived = fmt.Sprintf(" (%d waived)", len(r.Waived))
	}
	_, err := fmt.Fprintf(w, "PREFLIGHT %s - %s | %s\n", nagiosState(r), statusText(report.Shorten(text, longestStatus))+waived, perfdata(r))
	return err
}

// causes returns the words for each finding, and if there is none, for why the verdict is unknown.
func causes(words report.Words, r checks.Report) (all []string) {
	for _, p := range words.Problems(false) {
		check, parts := p.Check, []checks.Finding{p.Finding}
		switch {
		case p.Checks != nil:
			check = strings.Join(p.Checks, ", ")
		case p.Changes != nil:
			parts = p.Parts
		}
		for _, f := range parts {
			all = append(all, causeInWords(words.Whom(f), strings.TrimSuffix(f.Summary+": "+f.Got, ": "), check))
		}
	}
	if unfinished := words.Unfinished(); len(all) == 0 && r.ExitCode != 0 && unfinished != "" {
		return strings.Split(unfinished, "\n")
	}
	return all
}

func causeInWords(nodes, cause, check string) string {
	cause = strings.Join(strings.Fields(cause), " ")
	return fmt.Sprintf("%s: %s (%s)", report.Shorten(nodes, longestNodes), report.Shorten(cause, longestCause), report.Shorten(check, longestNodes))
}

func nagiosState(r checks.Report) string {
	switch {
	case r.ExitCode == 1:
		return "CRITICAL"
	case r.ExitCode != 0:
		return "UNKNOWN"
	case r.Verdict == checks.Warn:
		return "WARNING"
	}
	return "OK"
}

// statusText escapes what would begin the performance data, and what Nagios would pass to a browser
// as HTML.
func statusText(line string) string {
	return strings.NewReplacer("|", `\x7c`, "<", `\x3c`, ">", `\x3e`).Replace(text.Escape(line))
}

func perfdata(r checks.Report) string {
	values := []string{fmt.Sprintf("nodes=%d;;;0", len(r.Nodes)), fmt.Sprintf("reached=%d;;;0;%d", report.Reached(r), len(r.Nodes))}
	for _, counted := range report.Counted {
		values = append(values, fmt.Sprintf("%s=%d;;;0;%d", counted.Word, len(report.Outcomes(r, counted.Verdict)), len(r.Checks)))
	}
	values = append(values, fmt.Sprintf("waived=%d;;;0", len(r.Waived)))
	return strings.Join(append(values, fmt.Sprintf("time=%.3fs;;;0", r.Seconds)), " ")
}
