// SPDX-License-Identifier: Apache-2.0

package report

import (
	"preflight/checks"
	"preflight/checks/fix"
)

// The labels of a report, the same in every format. Sentences about the launch are in words.go.
const (
	LabelGot      = "got"
	LabelWant     = "want"
	LabelNote     = "note"
	LabelWouldSee = "would see" // what training would have printed: would_see in JSON
	LabelReason   = "reason"    // why checks are unknown
	LabelAffects  = "affects"   // the checks that are unknown for that reason
	LabelCause    = "cause"     // the check that finds what causes a finding

	LabelNotTested = "not tested" // what can end the launch and no check of this run tested
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

// RoleLabels are the labels of commands by their roles.
var RoleLabels = map[fix.Role]string{fix.Look: "look", fix.Fix: "fix", fix.Then: "then", fix.Or: "or"}

// verdicts are the words for verdicts, in capitals so that logs can be searched for them.
var verdicts = map[checks.Verdict]string{
	checks.Fail: "FAIL", checks.Warn: "WARN", checks.Unknown: "UNKNOWN", checks.Pass: "PASS", checks.Skip: "SKIP",
}

// Word returns a verdict in capitals: "FAIL".
func Word(v checks.Verdict) string { return verdicts[v] }

// labels are the verdicts of checks without a finding, for lists of their reasons.
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
