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
	// longestStatus is the maximum number of characters of the text in a status line. NRPE 2 passes
	// on 1,024 bytes of a plugin's output, including performance data.
	longestStatus = 600
	// mostFindings is the maximum number of findings in the line. longestNodes and longestCause are
	// the maximum numbers of characters of the nodes and of the cause of a finding.
	mostFindings = 6
	longestNodes = 60
	longestCause = 120
)

// Nagios writes one status line in the form that Nagios, Icinga, Naemon and Checkmk read from a
// plugin. The performance data comes after the bar:
//
//	PREFLIGHT CRITICAL - this launch will not work: 1 problem on w2: w2: /dev/shm is too small: 64 MiB (shm-size) | nodes=2;;;0 …
//
// After the verdict, the line lists the findings in the same order as the text report, each with
// its nodes, cause and check.
//
// The performance data counts the nodes, the reached nodes, the checks that passed, failed, warned
// and are unknown, and the waived findings. It also has the duration of the run in seconds. The
// maximum of a count is the total number of nodes, checks or findings. The form follows the
// development guidelines of the Monitoring Plugins.
//
// preflight's exit codes differ from those of a plugin: 1 means failed and 2 means unknown. A
// plugin must map exit code 1 to 2 (CRITICAL) and 2 to 3 (UNKNOWN). It must keep 0, or map 0 to 1
// (WARNING) if the line begins with PREFLIGHT WARNING:
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

// causes returns a text for each finding. If there is no finding, causes returns the reasons why
// the verdict is unknown.
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

// statusText escapes the bar, which would begin the performance data, and < and >, which Nagios
// would pass to a browser as HTML.
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
