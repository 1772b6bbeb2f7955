// SPDX-License-Identifier: Apache-2.0

package report

import (
	"preflight/checks"
	"preflight/checks/fix"
)

// These are the labels of a report. They are the same in every format. Sentences about the launch
// are in words.go.
const (
	LabelGot      = "got"
	LabelWant     = "want"
	LabelNote     = "note"
	LabelWouldSee = "would see" // what training would have printed: would_see in JSON
	LabelReason   = "reason"    // why checks are unknown
	LabelAffects  = "affects"   // the checks that are unknown for that reason
	LabelCause    = "cause"     // the check that finds what causes a finding

	LabelNotTested = "not tested" // problems that can end the launch and that no check of this run tested
	LabelUsable    = "usable now" // the nodes that a launch could use

	labelChecks     = "checks"
	labelUnreached  = "unreached"
	labelRemark     = "remark"
	labelMore       = "more"
	labelWaived     = "waived"
	labelThroughput = "throughput"

	headingProven  = "proven to work by this run"
	headingRefused = "proven to work, but do not write these down"
	headingDerived = "derived from the facts, not tried"
)

// RoleLabels maps the roles of commands to their labels.
var RoleLabels = map[fix.Role]string{fix.Look: "look", fix.Fix: "fix", fix.Then: "then", fix.Or: "or"}

// verdicts maps verdicts to words in capitals, so that logs can be searched for them.
var verdicts = map[checks.Verdict]string{
	checks.Fail: "FAIL", checks.Warn: "WARN", checks.Unknown: "UNKNOWN", checks.Pass: "PASS", checks.Skip: "SKIP",
}

// Word returns a verdict in capitals: "FAIL".
func Word(v checks.Verdict) string { return verdicts[v] }

// labels maps the verdicts of checks without a finding to the labels of their reasons.
var labels = map[checks.Verdict]string{checks.Pass: "passed", checks.Unknown: "unknown", checks.Skip: "skipped"}

// Counted lists the verdicts whose checks are counted, in the order of the output.
var Counted = []struct {
	Verdict checks.Verdict
	Word    string
}{{checks.Pass, "passed"}, {checks.Fail, "failed"}, {checks.Warn, "warned"}, {checks.Unknown, "unknown"}}

// These are the column headers of the tables.
var (
	problemHeader    = []string{"", "CHECK", "NODES", "PROBLEM"}
	differenceHeader = []string{"differs", "most nodes", "others"}
)
