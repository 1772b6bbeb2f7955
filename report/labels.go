// SPDX-License-Identifier: Apache-2.0

package report

import (
	"preflight/checks"
	"preflight/checks/fix"
)

// The words of the layout: what every format calls the same thing. Sentences about the launch are in
// words.go.
const (
	LabelGot      = "got"
	LabelWant     = "want"
	LabelNote     = "note"
	LabelWouldSee = "would see" // what training would have printed, the JSON's would_see
	LabelReason   = "reason"    // why checks are unknown
	LabelAffects  = "affects"   // the checks that are unknown for it
	LabelCause    = "cause"     // the check that finds what a finding comes from

	LabelNotTested = "not tested" // what can end the launch and no check of this run has tried
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

// RoleLabels are what commands are called by what they are for.
var RoleLabels = map[fix.Role]string{fix.Look: "look", fix.Fix: "fix", fix.Then: "then", fix.Or: "or"}

// verdicts are the words for them, each in capitals, so that logs can be searched.
var verdicts = map[checks.Verdict]string{
	checks.Fail: "FAIL", checks.Warn: "WARN", checks.Unknown: "UNKNOWN", checks.Pass: "PASS", checks.Skip: "SKIP",
}

// Word returns a verdict in capitals: "FAIL".
func Word(v checks.Verdict) string { return verdicts[v] }

// labels are the verdicts of checks without a finding, in lists of their reasons.
var labels = map[checks.Verdict]string{checks.Pass: "passed", checks.Unknown: "unknown", checks.Skip: "skipped"}

// Counted are the verdicts whose checks are counted, in this order.
var Counted = []struct {
	Verdict checks.Verdict
	Word    string
}{{checks.Pass, "passed"}, {checks.Fail, "failed"}, {checks.Warn, "warned"}, {checks.Unknown, "unknown"}}

// The columns of the tables.
var (
	problemHeader    = []string{"", "CHECK", "NODES", "PROBLEM"}
	differenceHeader = []string{"differs", "most nodes", "others"}
)
