package ci

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"preflight/checks"
	"preflight/report"
)

const (
	// longestStatus is how many characters the text of a status line has at most: of a
	// plugin's output NRPE 2 hands on 1,024 bytes, performance data included.
	longestStatus = 600
	// mostFindings is how many findings are named there, and longestNodes how many characters
	// the nodes of each take.
	mostFindings = 6
	longestNodes = 60
)

// NagiosLine is a whole file of ours: people append such lines to notes of theirs.
var NagiosLine = regexp.MustCompile(`^PREFLIGHT (?:OK|WARNING|CRITICAL|UNKNOWN) - [^\n]*\n?$`)

// Nagios writes one status line as Nagios, Icinga, Naemon and Checkmk read it from a
// plugin, performance data behind the bar:
//
//	PREFLIGHT CRITICAL - this launch will not work: 1 problem on w2: shm-size w2 | nodes=2;;;0 …
//
// The performance data is nodes and reached, how many checks passed, failed, warned and
// are unknown, how many findings are waived, and the time of the run in seconds; a count's
// maximum is that of what it counts. The form is that of the Monitoring Plugins' development guidelines.
//
// preflight's own exit codes are no plugin's: 1 means failed and 2 could not tell. A
// plugin maps them: 0 stays 0 (1, WARNING, where the line begins PREFLIGHT WARNING), 1
// becomes 2, CRITICAL, and 2 becomes 3, UNKNOWN:
//
//	line=$(preflight judge run.json --format nagios); code=$?; echo "$line"
//	case "$code $line" in "0 PREFLIGHT WARNING"*) exit 1;; 0*) exit 0;; 1*) exit 2;; *) exit 3;; esac
func Nagios(w io.Writer, r checks.Report) error {
	words := report.WordsOf(r)
	found := report.Map(r.Findings, func(f checks.Finding) string { return f.Check + " " + report.Shorten(words.Whom(f), longestNodes) })
	text := words.Conclusion()
	if more := len(found) - mostFindings; more > 0 {
		found = append(found[:mostFindings], fmt.Sprintf("and %d more", more))
	}
	if len(found) > 0 {
		text += ": " + strings.Join(found, ", ")
	}
	waived := ""
	if len(r.Waived) > 0 {
		waived = fmt.Sprintf(" (%d waived)", len(r.Waived))
	}
	_, err := fmt.Fprintf(w, "PREFLIGHT %s - %s | %s\n", nagiosState(r), statusText(report.Shorten(text, longestStatus))+waived, perfdata(r))
	return err
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

// statusText escapes what would end the text and begin the performance data, and what
// Nagios would hand to a browser as HTML.
func statusText(text string) string {
	return strings.NewReplacer("|", `\x7c`, "<", `\x3c`, ">", `\x3e`).Replace(report.Escape(text))
}

func perfdata(r checks.Report) string {
	values := []string{fmt.Sprintf("nodes=%d;;;0", len(r.Nodes)), fmt.Sprintf("reached=%d;;;0;%d", report.Reached(r), len(r.Nodes))}
	for _, counted := range report.Counted {
		values = append(values, fmt.Sprintf("%s=%d;;;0;%d", counted.Word, len(report.Outcomes(r, counted.Verdict)), len(r.Checks)))
	}
	values = append(values, fmt.Sprintf("waived=%d;;;0", len(r.Waived)))
	return strings.Join(append(values, fmt.Sprintf("time=%.3fs;;;0", r.Seconds)), " ")
}
