// SPDX-License-Identifier: Apache-2.0

// Package ci renders a finished report for a team's programs: JUnit, Markdown, GitHub annotations,
// Nagios, Prometheus and lists of hosts.
//
// It refuses to look better than the report's exit code, and to pass on a node's text in a form
// that a reader could take for markup, a command or another record.
package ci

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"preflight/checks"
	"preflight/internal/text"
	"preflight/report"
)

// judgement is one check with all its findings.
type judgement struct {
	checks.Outcome
	findings []checks.Finding
	waived   []checks.Waived
}

// explained reports whether the check is unknown for a reason that another check reports.
func (j judgement) explained() bool {
	return j.Verdict == checks.Unknown && !slices.ContainsFunc(j.findings, func(f checks.Finding) bool { return f.Verdict == checks.Unknown })
}

// judgements returns all checks in the order of the catalogue. A finding of a check that is not
// listed adds that check, so that no finding is lost.
func judgements(r checks.Report) []judgement {
	var all []judgement
	for _, outcome := range r.Checks {
		all = append(all, judgement{Outcome: outcome})
	}
	of := func(check string, verdict checks.Verdict) *judgement {
		i := slices.IndexFunc(all, func(j judgement) bool { return j.Check == check })
		if i < 0 {
			i = len(all)
			all = append(all, judgement{Outcome: checks.Outcome{Check: check, Verdict: verdict}})
		}
		return &all[i]
	}
	for _, f := range r.Findings { // sorted with the worst first
		one := of(f.Check, f.Verdict)
		one.findings = append(one.findings, f)
	}
	for _, w := range r.Waived {
		one := of(w.Check, checks.Skip)
		one.waived = append(one.waived, w)
	}
	return all
}

// JUnit writes the report as JUnit XML: one testsuite, and one testcase for each check in the order
// of the catalogue. The class name is preflight.checks, so that Jenkins shows the package
// preflight.
//
//	fail     <failure>, with nodes, got, want, commands and what training would print
//	unknown  <error>; <skipped> if another testcase has the cause, so that one node
//	         that is down is one error and not fifty
//	skip     <skipped>; for a check with waived findings it says until when, by whom
//	         and why, and <system-out> has the findings
//	warn     passes, with the same text in <system-out>; <failure> if the report's
//	         exit code says that warnings fail
//	pass     passes, with its remark, if any, in <system-out>
//
// A report never looks better here than its exit code: if that is not 0 and no testcase explains
// it, as after an interruption, a testcase named run does. The time is that of the whole run in
// seconds. Checks take almost no time, so theirs is 0. The timestamp is when the run began, in UTC
// and without a zone, as Ant's schema requires. The hostname is the launching machine's, or
// "localhost", as Ant writes, if the launching machine was not looked at.
//
// JUnit XML has no standard. This is what three readers agree on: the schema of Jenkins
// (jenkinsci/xunit-plugin, junit-10.xsd), its parser (jenkinsci/junit-plugin, CaseResult.java,
// which takes the first failure of a testcase) and GitLab's (lib/gitlab/ci/parsers/test/junit.rb,
// which shows an element's text instead of its message, and follows [[ATTACHMENT|…]] in the
// <system-out> of a failed testcase: this file has none).
func JUnit(w io.Writer, r checks.Report) error {
	words := report.WordsOf(r)
	suite := junitSuite{Name: "preflight", Time: junitTime(r.Seconds), Hostname: "localhost"}
	if began, err := time.Parse(time.RFC3339, r.Began); err == nil {
		suite.Timestamp = began.UTC().Format("2006-01-02T15:04:05")
	}
	if r.Head != nil && r.Head.Host != nil {
		suite.Hostname = text.Escape(cmp.Or(r.Head.Host.Hostname, "localhost"))
	}
	suite.properties("version", r.Version)
	suite.properties("hostfile", r.Hostfile)
	suite.properties("policy", r.Policy)
	for _, one := range judgements(r) {
		suite.add(testcase(words, one, r.Strict))
	}
	if r.ExitCode != 0 && suite.Failures+suite.Errors == 0 {
		conclusion := words.Conclusion()
		suite.add(junitCase{Name: "run", Error: &junitProblem{Message: text.Escape(conclusion), Type: string(r.Verdict),
			Text: report.EscapeLines(conclusion + "\n" + words.Unfinished())}})
	}
	all := junitSuites{Name: suite.Name, Tests: suite.Tests, Failures: suite.Failures, Errors: suite.Errors, Time: suite.Time, Suite: suite}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// The elements, as encoding/xml writes them.
type (
	junitSuites struct {
		XMLName  xml.Name   `xml:"testsuites"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Errors   int        `xml:"errors,attr"`
		Time     string     `xml:"time,attr"`
		Suite    junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Time       string          `xml:"time,attr"`
		Timestamp  string          `xml:"timestamp,attr,omitempty"`
		Hostname   string          `xml:"hostname,attr"`
		Properties []junitProperty `xml:"properties>property,omitempty"`
		Cases      []junitCase     `xml:"testcase"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitProblem `xml:"failure"`
		Error   *junitProblem `xml:"error"`
		Skipped *junitSkipped `xml:"skipped"`
		Output  *junitText    `xml:"system-out"`
	}
	junitProblem struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",cdata"` // CDATA keeps line breaks readable
	}
	junitSkipped struct {
		Message string `xml:"message,attr"`
	}
	junitText struct {
		Text string `xml:",cdata"`
	}
)

func (s *junitSuite) properties(name, value string) {
	if value != "" {
		s.Properties = append(s.Properties, junitProperty{name, text.Escape(value)})
	}
}

// add appends a testcase to the suite and counts it.
func (s *junitSuite) add(c junitCase) {
	c.Class, c.Time = "preflight.checks", "0"
	s.Tests++
	switch {
	case c.Failure != nil:
		s.Failures++
	case c.Error != nil:
		s.Errors++
	case c.Skipped != nil:
		s.Skipped++
	}
	s.Cases = append(s.Cases, c)
}

// testcase returns the testcase of one check. It escapes characters that XML cannot hold before the
// encoder would replace them.
func testcase(words report.Words, one judgement, warningsFail bool) junitCase {
	c := junitCase{Name: text.Escape(one.Check)}
	switch {
	case one.Verdict == checks.Fail, one.Verdict == checks.Warn && warningsFail:
		c.Failure = problem(words, one)
		return c
	case one.Verdict == checks.Unknown && !one.explained():
		c.Error = problem(words, one)
		return c
	case one.explained():
		c.Skipped = &junitSkipped{"unknown: " + text.Escape(one.Reason)}
	case one.Verdict == checks.Skip:
		c.Skipped = &junitSkipped{whySkipped(words, one)}
	}
	if remark := one.Verdict == checks.Pass && one.Reason != ""; remark || len(one.findings)+len(one.waived) > 0 {
		c.Output = &junitText{problem(words, one).Text}
	}
	return c
}

func whySkipped(words report.Words, one judgement) string {
	if len(one.waived) == 0 {
		return text.Escape(one.Reason)
	}
	return strings.Join(text.Map(one.waived, func(w checks.Waived) string {
		return words.Nodes(w.Nodes) + " waived " + text.Escape(report.Promise(w))
	}), "; ")
}

func problem(words report.Words, one judgement) *junitProblem {
	message, detail := one.Reason, words.Blocks(one.findings, one.waived)
	switch {
	case one.Reason != "":
		detail = one.Reason + "\n" + detail
	case len(one.findings) > 0:
		first := one.findings[0]
		message = words.Nodes(first.Nodes) + ": " + first.Summary
		if more := len(one.findings) - 1; more > 0 {
			message += fmt.Sprintf(" (and %d more)", more)
		}
	}
	return &junitProblem{text.Escape(message), string(one.Verdict), "\n" + report.EscapeLines(detail) + "\n"}
}

func junitTime(seconds float64) string { return fmt.Sprintf("%.3f", seconds) }
