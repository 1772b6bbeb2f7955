// SPDX-License-Identifier: Apache-2.0

package ci

import (
	"encoding/xml"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/facts"
	"preflight/testhosts/reporttest"
)

func TestJUnit(t *testing.T) {
	for name, want := range map[string]string{
		// If another check reports the reason of a check, the check itself is not a failure.
		"failing": "ssh-reach failure, ssh-login skipped, shm-size failure, env-sane system-out, python-same error, torch-same error, ib-links skipped, host-distinct",
		"passing": "ssh-reach, ib-links skipped",
		"strict":  "env-sane failure",
		// The file never looks better than the exit code.
		"interrupted": "ssh-reach, ib-links skipped, run error",
		"orphaned":    "ssh-reach, ib-links skipped, drift failure",
		"hostile":     "shm-size failure, env-sane system-out, python-same error, ib-links skipped system-out",
		"waiving": "ssh-reach failure, ssh-login skipped, shm-size failure, env-sane system-out, python-same error, torch-same error, ib-links skipped, host-distinct, " +
			"path-mtu skipped system-out, expectation failure",
	} {
		t.Run(name, func(t *testing.T) {
			text := reporttest.Rendered(t, JUnit, reporttest.Cases()[name])
			if name == "failing" {
				reporttest.Golden(t, "junit.xml", []byte(text))
			}
			suite := decodeJUnit(t, text)
			var got []string
			count := map[string]int{}
			for _, c := range suite.Cases {
				told := c.Name
				for _, child := range c.Children {
					told += " " + child.XMLName.Local
					count[child.XMLName.Local]++
				}
				got = append(got, told)
			}
			if diff := cmp.Diff(want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			counted := []int{suite.Tests, suite.Failures, suite.Errors, suite.Skipped}
			if diff := cmp.Diff([]int{len(suite.Cases), count["failure"], count["error"], count["skipped"]}, counted); diff != "" {
				t.Errorf("tests, failures, errors, skipped (-counted +said):\n%s", diff)
			}
			validJUnit(t, text)
		})
	}
}

// TestJUnitTellsAll checks that an element's text has the whole finding. GitLab shows only this
// text.
func TestJUnitTellsAll(t *testing.T) {
	suite := decodeJUnit(t, reporttest.Rendered(t, JUnit, reporttest.Failing()))
	shm := suite.Cases[2].Children[0]
	for _, want := range []string{"w[2-3]", "too small", "64 MiB", "at least 517 MiB", "remount,size=16G", "docker run", "No space left on device"} {
		if !strings.Contains(shm.Text, want) {
			t.Errorf("no %q in:\n%s", want, shm.Text)
		}
	}
	if want := "w[2-3]: /dev/shm is too small"; !strings.HasPrefix(shm.Message, want) || shm.Type != "fail" {
		t.Errorf("message %q of type %q, want one that begins %q, of type fail", shm.Message, shm.Type, want)
	}
}

// TestJUnitWaived checks that a skipped testcase has its findings and says until when, by whom and
// why they are waived. A testcase that also fails must have the same text.
func TestJUnitWaived(t *testing.T) {
	suite := decodeJUnit(t, reporttest.Rendered(t, JUnit, reporttest.Waiving()))
	mtu := suite.Cases[8]
	if want := "w[2-3] waived until 2027-01-15, by net: new switch"; mtu.Children[0].Message != want {
		t.Errorf("message %q, want %q", mtu.Children[0].Message, want)
	}
	if want := "waived  path-mtu w[2-3]: MTUs differ"; !strings.Contains(mtu.Children[1].Text, want) {
		t.Errorf("no %q in %q", want, mtu.Children[1].Text)
	}
	if want := "waived  shm-size w1: /dev/shm is too small (until 2026-12-31, by ops: docker's default)"; !strings.Contains(suite.Cases[2].Children[0].Text, want) {
		t.Errorf("no %q in:\n%s", want, suite.Cases[2].Children[0].Text)
	}
	if want := "2026-11-21T19:20:00"; suite.Timestamp != want {
		t.Errorf("timestamp %q, want %q", suite.Timestamp, want)
	}
}

// TestJUnitSaysWhyUnknown checks that a check with a warning also says what is unknown and which
// check explains the reason.
func TestJUnitSaysWhyUnknown(t *testing.T) {
	r := reporttest.Failing()
	r.Checks = []checks.Outcome{{Check: "env-sane", Verdict: checks.Unknown, Reason: "w4 not reached"}}
	c := decodeJUnit(t, reporttest.Rendered(t, JUnit, r)).Cases[0].Children
	if len(c) != 2 || c[0].XMLName.Local != "skipped" || c[0].Message != "unknown: w4 not reached" || !strings.Contains(c[1].Text, "a hostile") {
		t.Errorf("%q", c)
	}
}

func TestJUnitHostname(t *testing.T) {
	r := reporttest.Passing()
	if got := decodeJUnit(t, reporttest.Rendered(t, JUnit, r)); got.Hostname != "localhost" || got.Time != "0.300" {
		t.Errorf("hostname %q, time %q", got.Hostname, got.Time)
	}
	r.Head = &facts.Node{Facts: facts.Facts{Host: &facts.Host{Hostname: "login1"}}}
	if got := decodeJUnit(t, reporttest.Rendered(t, JUnit, r)); got.Hostname != "login1" {
		t.Errorf("hostname %q, want login1", got.Hostname)
	}
}

type readSuite struct {
	Tests    int    `xml:"tests,attr"`
	Failures int    `xml:"failures,attr"`
	Errors   int    `xml:"errors,attr"`
	Skipped  int    `xml:"skipped,attr"`
	Time     string `xml:"time,attr"`
	Hostname string `xml:"hostname,attr"`

	Timestamp string `xml:"timestamp,attr"`
	Cases     []struct {
		Name     string `xml:"name,attr"`
		Children []struct {
			XMLName xml.Name
			Message string `xml:"message,attr"`
			Type    string `xml:"type,attr"`
			Text    string `xml:",chardata"`
		} `xml:",any"`
	} `xml:"testcase"`
}

// decodeJUnit reads a report as a strict reader does. It accepts only XML 1.0 with one root element
// and nothing after the root.
func decodeJUnit(t *testing.T, text string) readSuite {
	t.Helper()
	var read struct {
		XMLName xml.Name  `xml:"testsuites"`
		Suite   readSuite `xml:"testsuite"`
	}
	if err := xml.Unmarshal([]byte(text), &read); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return read.Suite
}

// validJUnit checks a report against the rules of its readers.
func validJUnit(t *testing.T, text string) {
	t.Helper()
	if _, err := exec.LookPath("xmllint"); err != nil {
		t.Skip("NOT RUN: JUnit against its schema, because there is no xmllint (libxml2-utils)")
	}
	lint := exec.Command("xmllint", "--noout", "--nonet", "--schema", "testdata/junit.xsd", "-")
	lint.Stdin = strings.NewReader(text)
	if said, err := lint.CombinedOutput(); err != nil {
		t.Errorf("xmllint: %v\n%s", err, said)
	}
}
