package report

import (
	"fmt"
	"io"
	"strings"

	"preflight/checks"
)

const (
	// longestStatus is how many characters the text of a status line has at most: of a
	// plugin's output NRPE 2 hands on 1,024 bytes, performance data included.
	longestStatus = 600
	// mostTold is how many findings are told there, and longestNodes how many characters
	// the nodes of each take.
	mostTold     = 6
	longestNodes = 60
)

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
	p := pageOf(r, Style{})
	var told []string
	for _, f := range r.Findings {
		told = append(told, f.Check+" "+shortened(p.whom(f), longestNodes))
	}
	text := p.conclusion(r)
	if more := len(told) - mostTold; more > 0 {
		told = append(told[:mostTold], fmt.Sprintf("and %d more", more))
	}
	if len(told) > 0 {
		text += ": " + strings.Join(told, ", ")
	}
	waived := ""
	if len(r.Waived) > 0 {
		waived = fmt.Sprintf(" (%d waived)", len(r.Waived))
	}
	_, err := fmt.Fprintf(w, "PREFLIGHT %s - %s | %s\n", nagiosState(r), statusText(shortened(text, longestStatus))+waived, perfdata(r))
	return err
}

// nagiosState is the state by the exit code, which alone decides.
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
	return strings.NewReplacer("|", `\x7c`, "<", `\x3c`, ">", `\x3e`).Replace(Escape(text))
}

func perfdata(r checks.Report) string {
	reached := 0
	for _, node := range r.Nodes {
		if node.Reached {
			reached++
		}
	}
	values := []string{fmt.Sprintf("nodes=%d;;;0", len(r.Nodes)), fmt.Sprintf("reached=%d;;;0;%d", reached, len(r.Nodes))}
	for _, count := range []struct {
		name    string
		verdict checks.Verdict
	}{{"passed", checks.Pass}, {"failed", checks.Fail}, {"warned", checks.Warn}, {"unknown", checks.Unknown}} {
		values = append(values, fmt.Sprintf("%s=%d;;;0;%d", count.name, len(outcomes(r, count.verdict)), len(r.Checks)))
	}
	values = append(values, fmt.Sprintf("waived=%d;;;0", len(r.Waived)))
	return strings.Join(append(values, fmt.Sprintf("time=%.3fs;;;0", r.Seconds)), " ")
}
