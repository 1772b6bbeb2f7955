// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"encoding/json"
	"slices"

	"preflight/facts"
	"preflight/launch"
	"preflight/launch/nccl"
)

// Schema is the version of Report's JSON. Fields are added, never changed.
const Schema = 1

// Report is a finished run: what was seen, what was judged and what to do. It
// is also the snapshot format, so judge and diff read it back.
type Report struct {
	Schema   int     `json:"schema"`
	Version  string  `json:"version"`
	Verdict  Verdict `json:"verdict"`
	ExitCode int     `json:"exit_code"`
	Seconds  float64 `json:"seconds"`
	Hostfile string  `json:"hostfile"`
	// Began is when the look at the nodes began, RFC 3339 in UTC; "" where nobody kept it.
	Began string `json:"began,omitempty"`
	// Interrupted is set when the run was stopped before every node answered.
	Interrupted bool `json:"interrupted,omitempty"`
	// CannotSee says what this build of preflight cannot see on any node; "" for nothing.
	CannotSee string `json:"cannot_see,omitempty"`
	// Strict is set where warnings fail the run, whatever else does.
	Strict bool `json:"strict,omitempty"`
	// Normalized is set when facts that change by themselves were left out when it was
	// saved: see [Lasting].
	Normalized  bool `json:"normalized,omitempty"`
	facts.Fleet      // head, nodes and what was not tried, as seen
	// LaunchedFrom is the node that the launching machine is, "" when it is none of
	// them or that is not known.
	LaunchedFrom string            `json:"launched_from,omitempty"`
	Launch       launch.Prediction `json:"launch"`
	Checks       []Outcome         `json:"checks"`
	Findings     []Finding         `json:"findings"`
	// Policy is the configuration file: settings, expectations, severities, waivers. "" for
	// none.
	Policy string `json:"policy,omitempty"`
	// Waived are findings that by the policy do not count.
	Waived []Waived   `json:"waived,omitempty"`
	Diff   []FactDiff `json:"diff"`
	// LeftOut is what there was no room for.
	LeftOut LeftOut `json:"left_out,omitzero"`
	Advice  Advice  `json:"advice"`
	// Interconnect is what NCCL will use, the largest group first; empty where it is
	// not NCCL that the ranks talk by, or nothing was seen.
	Interconnect []Interconnect `json:"interconnect,omitempty"`
}

// LeftOut counts what a report leaves out because there is too much of it.
type LeftOut struct {
	Differences int `json:"differences,omitempty"`
}

// Outcome is one check's verdict over the whole fleet.
type Outcome struct {
	Check    string   `json:"check"`
	Verdict  Verdict  `json:"verdict"`
	Severity Severity `json:"severity"`
	Reason   string   `json:"reason"` // of a skip or an unknown; what a pass does not hold for; else ""
}

// FactDiff is one fact on which the nodes differ, the largest group first.
type FactDiff struct {
	Fact   string      `json:"fact"`
	Groups []FactGroup `json:"groups"`
}

// FactGroup is the nodes that share one value. Value is null for the nodes
// that do not have the fact.
type FactGroup struct {
	Value json.RawMessage `json:"value"`
	Nodes []string        `json:"nodes"`
}

// Change is one fact of one node that is not what it was. Before or After is null where the
// fact, or the node, was not there. A list entry that came or went with several facts (a GPU,
// an interface) is one change, whose value is "present".
type Change struct {
	Node   string          `json:"node"`
	Fact   string          `json:"fact"` // "" when the node itself came, went or is reached otherwise
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

// Came is whether it was not there before.
func (c Change) Came() bool { return len(c.Before) == 0 }

// Gone is whether it is there no more.
func (c Change) Gone() bool { return len(c.After) == 0 }

// Advice is the environment and the arguments that were proven to work, by
// drills on every node of the fleet. What was not proven is in Seen only.
type Advice struct {
	Env  []AdvisedEnv `json:"env"`
	Args []string     `json:"args"`
	// Program is whose arguments these are, "deepspeed" or "torchrun"; "" without any.
	Program string `json:"program,omitempty"`
	// Seen follows from what the nodes showed, and no drill has tried it: nothing
	// here was sent by InfiniBand or RoCE.
	Seen []AdvisedEnv `json:"seen,omitempty"`
	// Refused was proven to work and is nothing to write down: Why says what to do instead.
	Refused []AdvisedEnv `json:"refused,omitempty"`
}

// AdvisedEnv is one variable to set for the launch, as a line NAME=VALUE of a
// .deepspeed_env takes it, and the proof or, in Seen, the reason.
type AdvisedEnv struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Why   string `json:"why"`
}

// AdvisedNames are the variables that Advice.Env may hold.
var AdvisedNames = []string{"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}

// Waived is a finding that does not count, and why.
type Waived struct {
	Finding
	Reason string `json:"reason"`
	Owner  string `json:"owner,omitempty"`
	Until  string `json:"until"`
	At     string `json:"at,omitempty"` // where the waiver is stated, "preflight.yaml:31"
}

// AllWaived is the reason of a skip where all that a check found is waived.
const AllWaived = "all that it found is waived"

// SwitchedOff is the reason of a skip that the user asked for.
const SwitchedOff = "switched off"

// Interconnect is nodes whose ranks will talk alike.
type Interconnect struct {
	Nodes   []string       `json:"nodes"`
	Inside  nccl.Transport `json:"inside"`
	Between nccl.Transport `json:"between"`
}

// Gravity orders verdicts, the one that matters most first.
func Gravity(v Verdict) int {
	return slices.Index([]Verdict{Fail, Unknown, Warn, Pass, Skip}, v)
}

// Conclude sets the verdict and the exit code from the checks and findings: 1
// when something failed (under strict also when something is warned of), 2 when
// something is not known, 1 before 2. A run in which every check was
// skipped has shown nothing.
func (r *Report) Conclude(strict bool) {
	r.Strict = strict
	met := map[Verdict]bool{}
	for _, outcome := range r.Checks {
		met[outcome.Verdict] = true
	}
	for _, finding := range r.Findings { // a warning may hide behind its check's unknown
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

// Concluded is the verdict and the exit code of what is judged without checks: 1 when something failed, 2 when
// something is not known, 1 before 2.
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
