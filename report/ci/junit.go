// SPDX-License-Identifier: Apache-2.0

// Package ci renders a finished report for a team's programs: JUnit, Markdown, GitHub annotations,
// Nagios, Prometheus and lists of hosts.
//
// The output never looks better than the report's exit code. A node's text is always escaped, so
// that no reader treats it as markup, a command or another record.
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

// judgements returns all checks in the order of the catalogue. If a finding belongs to a check that
// the report does not list, judgements adds the check so that the finding is not lost.
func judgements(r checks.Report) []judgement {
	all := text.Map(r.Checks, func(outcome checks.Outcome) judgement { return judgement{Outcome: outcome} })
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
// The file never looks better than the report's exit code. If the exit code is not 0 and no
// testcase explains it, as after an interruption, a testcase named run explains it. The time of the
// testsuite is the duration of the whole run in seconds. Checks take almost no time, so the time of
// a testcase is 0. The timestamp is when the run began, in UTC and without a zone, as Ant's schema
// requires. The hostname is that of the launching machine. If preflight did not collect facts about
// the launching machine, the hostname is "localhost", as in Ant.
//
// JUnit XML has no standard. JUnit writes what three readers accept: Jenkins's schema
// (jenkinsci/xunit-plugin, junit-10.xsd), Jenkins's parser (jenkinsci/junit-plugin,
// CaseResult.java) and GitLab's parser (lib/gitlab/ci/parsers/test/junit.rb). Jenkins's parser uses
// only the first failure of a testcase. GitLab's parser shows an element's text instead of its
// message. It also follows [[ATTACHMENT|…]] in the <system-out> of a failed testcase, but this file
// contains none.
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

// These types are the XML elements that encoding/xml writes.
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

// testcase returns the testcase of one check. It escapes characters that XML cannot contain,
// because the encoder would replace them.
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
