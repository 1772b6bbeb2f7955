// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"
	"golang.org/x/tools/txtar"

	"preflight/checks"
	"preflight/checks/engine"
	"preflight/checks/fix"
	"preflight/checks/ssh"
	"preflight/testhosts/fleettest"
)

// TestFixtures compares every field of every outcome with the fixtures. With -update it writes the
// results below the arrows; read the diff.
func TestFixtures(t *testing.T) {
	for _, check := range Catalogue {
		archive := readArchive(t, check.ID)
		before := txtar.Format(archive)
		for i, c := range fixturesOf(t, check.ID) {
			t.Run(c.name, func(t *testing.T) {
				fleet, policy := c.build(t)
				report := alone(check, fleet, policy)
				got := c.outcome(report)
				if difference := diff.Diff("want", []byte(c.expected), "got", []byte(got)); difference != nil && !*update {
					t.Errorf("%s", difference)
				}
				for i, f := range report.Findings {
					wellSpoken(t, f)
					lacks(t, f, c.nowhere[i])
				}
				archive.Files[i].Data = []byte(c.changed + got + "\n")
			})
		}
		if after := txtar.Format(archive); *update && !bytes.Equal(before, after) {
			if err := os.WriteFile(archivePath(check.ID), after, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// outcome returns the result of the check in the format of the fixture.
func (c fixture) outcome(report checks.Report) string {
	outcome := report.Checks[0]
	text := arrow + string(outcome.Verdict)
	if outcome.Reason != "" {
		text += ": " + outcome.Reason
	}
	text += "\n"
	for i, f := range report.Findings {
		text += fleettest.Spelled([]checks.Finding{f})
		for _, absent := range c.nowhere[i] {
			text += fleettest.Line("  nowhere", absent)
		}
	}
	return text
}

// wellSpoken checks that a finding has a fix, and that no placeholder is left in its texts.
func wellSpoken(t *testing.T, f checks.Finding) {
	t.Helper()
	if f.Summary == "" || strings.HasSuffix(f.Summary, ".") {
		t.Errorf("summary %q is empty or ends in a full stop", f.Summary)
	}
	if (f.Verdict == checks.Fail || f.Verdict == checks.Warn) && (len(f.Fix)+len(f.Notes) == 0 || f.WouldSee == "") {
		t.Errorf("%q has no fix or no would_see: %q, %q", f.Summary, f.Fix, f.WouldSee)
	}
	for _, fix := range f.Fix {
		if strings.Contains(fix, ssh.UnknownDetail) || strings.HasPrefix(fix, "#") {
			t.Errorf("the fix %q is not one", fix)
		}
	}
	for i, line := range f.Fix {
		code, _, _ := strings.Cut(line, "   # ")
		if role := f.Roles[i]; role != fix.Look && role != fix.Or && needsDecision.MatchString(code) {
			t.Errorf("the %s %q is in a block that people paste whole", role, line)
		}
	}
	for _, text := range slices.Concat([]string{f.Summary, f.Got, f.Want, f.WouldSee}, f.Fix, f.Notes) {
		if left := ssh.Placeholder.FindString(text); left != "" {
			t.Errorf("%s is left in %q", left, text)
		}
	}
}

// needsDecision matches commands that change accounts or stop a machine.
var needsDecision = regexp.MustCompile(`(^|[ ;&|"'])(reboot|shutdown|poweroff|usermod|userdel|chage|passwd -[a-z])\b`)

// lacks checks that the texts that the fixture forbids do not occur in a finding. -update keeps the
// lines with these texts.
func lacks(t *testing.T, f checks.Finding, nowhere []string) {
	t.Helper()
	for _, text := range slices.Concat([]string{f.Summary, f.Got, f.Want, f.WouldSee}, f.Fix, f.Notes) {
		for _, absent := range nowhere {
			if strings.Contains(text, absent) {
				t.Errorf("%q says %q, which must appear nowhere", text, absent)
			}
		}
	}
}

var update = flag.Bool("update", false, "rewrite what stands below the arrows of the fixtures in testdata")

// judged evaluates a fleet with the default policy.
func judged(l fleettest.Fleet, catalogue ...checks.Check) checks.Report {
	return engine.Evaluate(catalogue, l.Fleet, l.Launch, checks.DefaultPolicy())
}

// alone evaluates one check with its dependencies. The report holds only the result of that check.
func alone(check checks.Check, l fleettest.Fleet, policy checks.Policy) checks.Report {
	return aloneAmong(Catalogue, check, l, policy)
}

func aloneAmong(catalogue []checks.Check, check checks.Check, l fleettest.Fleet, policy checks.Policy) checks.Report {
	if check.ID == checks.DriftID {
		catalogue = nil // drift uses the other checks only for the texts of fixes
	}
	r := engine.Evaluate(append([]checks.Check{check}, dependencies(catalogue, check)...), l.Fleet, l.Launch, policy)
	r.Checks = r.Checks[:1]
	r.Findings = slices.DeleteFunc(r.Findings, func(f checks.Finding) bool { return f.Check != check.ID })
	r.Waived = slices.DeleteFunc(r.Waived, func(w checks.Waived) bool { return w.Check != check.ID })
	r.Conclude(policy.Strict)
	return r
}

// dependencies returns the direct and indirect dependencies of a check.
func dependencies(catalogue []checks.Check, check checks.Check) (all []checks.Check) {
	for _, id := range check.DependsOn {
		i := slices.IndexFunc(catalogue, func(c checks.Check) bool { return c.ID == id })
		if i < 0 || slices.ContainsFunc(all, func(c checks.Check) bool { return c.ID == id }) {
			continue
		}
		all = append(all, catalogue[i])
		for _, c := range dependencies(catalogue, catalogue[i]) {
			if !slices.ContainsFunc(all, func(other checks.Check) bool { return other.ID == c.ID }) {
				all = append(all, c)
			}
		}
	}
	return all
}
