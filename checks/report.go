// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"encoding/json"
	"slices"

	"preflight/facts"
	"preflight/launch"
	"preflight/launch/nccl"
)

// Schema is the version of Report's JSON. Releases may add fields but never change them.
const Schema = 1

// Report is a finished run: its facts, verdicts and fixes. It is also the format of the snapshots
// that judge and diff read.
type Report struct {
	Schema   int     `json:"schema"`
	Version  string  `json:"version"`
	Verdict  Verdict `json:"verdict"`
	ExitCode int     `json:"exit_code"`
	Seconds  float64 `json:"seconds"`
	Hostfile string  `json:"hostfile"`
	// Began is the time when the run began to gather facts, in RFC 3339 and UTC, or "" if unknown.
	Began string `json:"began,omitempty"`
	// Interrupted is true if the run was stopped before every node answered.
	Interrupted bool `json:"interrupted,omitempty"`
	// CannotSee says what this build of preflight cannot see on any node. It is "" if there is no
	// such limit.
	CannotSee string `json:"cannot_see,omitempty"`
	// Strict is true if warnings fail the run.
	Strict bool `json:"strict,omitempty"`
	// Normalized is true if the report was saved without the facts that change by themselves: see
	// [Lasting].
	Normalized  bool `json:"normalized,omitempty"`
	facts.Fleet      // the launching machine, the nodes and the sections that were not tried
	// LaunchedFrom is the node that is also the launching machine. It is "" if no node is or if
	// that is unknown.
	LaunchedFrom string            `json:"launched_from,omitempty"`
	Launch       launch.Prediction `json:"launch"`
	Checks       []Outcome         `json:"checks"`
	Findings     []Finding         `json:"findings"`
	// Policy is the path of the configuration file with settings, expectations, severities and
	// waivers, or "" for none.
	Policy string `json:"policy,omitempty"`
	// Waived lists the findings that the policy does not count.
	Waived []Waived   `json:"waived,omitempty"`
	Diff   []FactDiff `json:"diff"`
	// LeftOut counts the entries that are left out because there are too many.
	LeftOut LeftOut `json:"left_out,omitzero"`
	Advice  Advice  `json:"advice"`
	// Next is the command to type after this run, "" if there is none.
	Next string `json:"next,omitempty"`
	// Interconnect lists the transports that NCCL will use, the largest group of nodes first. It is
	// empty if the ranks do not use NCCL, or if the nodes reported nothing about their transports.
	Interconnect []Interconnect `json:"interconnect,omitempty"`
}

// LeftOut counts the entries that a report leaves out because there are too many.
type LeftOut struct {
	Differences int `json:"differences,omitempty"`
}

// Outcome is the verdict of one check over all nodes.
type Outcome struct {
	Check    string   `json:"check"`
	Verdict  Verdict  `json:"verdict"`
	Severity Severity `json:"severity"`
	Reason   string   `json:"reason"` // why the check is skipped or unknown, or what a pass does not cover; otherwise ""
}

// FactDiff is one fact on which the nodes differ. The largest group of nodes comes first.
type FactDiff struct {
	Fact   string      `json:"fact"`
	Groups []FactGroup `json:"groups"`
}

// FactGroup is the set of nodes that share one value. Value is null for nodes that lack the fact.
type FactGroup struct {
	Value json.RawMessage `json:"value"`
	Nodes []string        `json:"nodes"`
}

// Change is one changed fact of one node. Before or After is null if the fact or the node did not
// exist in that run. A list entry that came or went with several facts (a GPU, an interface) is one
// change with the value "present".
type Change struct {
	Node   string          `json:"node"`
	Fact   string          `json:"fact"` // "" if the node itself was added, was removed, or is reached in only one of the runs
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

// Came reports whether the fact or the node is new.
func (c Change) Came() bool { return len(c.Before) == 0 }

// Gone reports whether the fact or the node no longer exists.
func (c Change) Gone() bool { return len(c.After) == 0 }

// Advice holds the variables and arguments that tests on every node of the fleet proved to work.
// Unproven variables are in Seen only.
type Advice struct {
	Env  []AdvisedEnv `json:"env"`
	Args []string     `json:"args"`
	// Program is the program that takes Args, "deepspeed" or "torchrun", or "" if there are no
	// Args.
	Program string `json:"program,omitempty"`
	// Seen holds variables that follow from the facts of the nodes but that no test tried:
	// preflight sent nothing over InfiniBand or RoCE.
	Seen []AdvisedEnv `json:"seen,omitempty"`
	// Refused holds variables that were proven to work but should not be written to a file. Why
	// says what to do instead.
	Refused []AdvisedEnv `json:"refused,omitempty"`
}

// AdvisedEnv is one variable to set for the launch. It becomes a line NAME=VALUE of a
// .deepspeed_env. Why is the proof that the value works, or in Seen the reason for the value.
type AdvisedEnv struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Why   string `json:"why"`
}

// AdvisedNames lists the variables that Advice.Env may hold.
var AdvisedNames = []string{"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}

// Waived is a finding that a waiver covers and that does not count, with the waiver's reason.
type Waived struct {
	Finding
	Reason string `json:"reason"`
	Owner  string `json:"owner,omitempty"`
	Until  string `json:"until"`
	At     string `json:"at,omitempty"` // where the policy states the waiver, such as "preflight.yaml:31"
}

// AllWaived is the reason of a check that is skipped because all its findings are waived.
const AllWaived = "all that it found is waived"

// SwitchedOff is the reason of a check that is skipped because the user switched it off.
const SwitchedOff = "switched off"

// Interconnect is a group of nodes whose ranks will use the same transports.
type Interconnect struct {
	Nodes   []string       `json:"nodes"`
	Inside  nccl.Transport `json:"inside"`
	Between nccl.Transport `json:"between"`
}

// Gravity returns the rank of a verdict, 0 for the gravest.
func Gravity(v Verdict) int {
	return slices.Index([]Verdict{Fail, Unknown, Warn, Pass, Skip}, v)
}

// Conclude sets the verdict and the exit code from the checks and findings. The exit code is 1 if
// something failed, or if there is a warning under strict. Otherwise it is 2 if something is
// unknown, else 0. A run that skipped every check has shown nothing, so it is unknown.
func (r *Report) Conclude(strict bool) {
	r.Strict = strict
	met := map[Verdict]bool{}
	for _, outcome := range r.Checks {
		met[outcome.Verdict] = true
	}
	for _, finding := range r.Findings { // a check that is unknown may also have a warning
		met[finding.Verdict] = true
	}
	switch {
	case met[Fail], met[Warn] && strict:
		r.Verdict, r.ExitCode = Fail, 1
	case met[Unknown], r.Interrupted, !met[Pass] && !met[Warn]:
		r.Verdict, r.ExitCode = Unknown, 2
	case met[Warn]:
		r.Verdict, r.ExitCode = Warn, 0
	default:
		r.Verdict, r.ExitCode = Pass, 0
	}
}

// Concluded returns the verdict and the exit code for findings that belong to no check. The exit
// code is 1 if something failed, else 2 if something is unknown, else 0.
func Concluded(findings []Finding, interrupted bool) (verdict Verdict, exitCode int) {
	met := map[Verdict]bool{}
	for _, finding := range findings {
		met[finding.Verdict] = true
	}
	switch {
	case met[Fail]:
		return Fail, 1
	case met[Unknown], interrupted:
		return Unknown, 2
	case met[Warn]:
		return Warn, 0
	}
	return Pass, 0
}
