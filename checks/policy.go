// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"slices"

	"preflight/facts"
)

// Policy is what a team may set: thresholds, which checks run and what they weigh,
// what is expected of nodes, and which defects are known.
type Policy struct {
	Only []string // IDs; empty means all
	Skip []string // IDs
	// Strict makes warnings fail the run.
	Strict bool
	// Baseline is what drift holds the fleet against, nil for nothing.
	Baseline *Baseline

	File       string              // that may state the rest, "" for none
	Today      string              // "2026-11-21", for waivers; "" where nobody said
	Expect     []Expectation       // each of them Valid
	Severities map[string]Severity // by check ID
	Drift      []DriftSeverity     // of single changes, the later of two that are alike in kind first to hold
	Waivers    []Waiver
	Groups     []Group
	KnownBad   []KnownBad // beside those that preflight knows itself

	SHMHeadroom int64   // bytes of /dev/shm beyond NCCL's need, for DataLoader workers
	ClockSkew   float64 // seconds two clocks may differ
	DiskFree    int64   // bytes free where the launch writes
	MemoryFree  float64 // share of the memory that must be available, 0 to 1
	OpenFiles   int64   // hard limit wanted; NCCL raises its soft one to it

	// The least that the smoke test is to measure, 0 for none: what is fast enough is of a
	// team's machines, and no default fits all.
	ComputeRate    float64 // of every rank, in operations a second
	CopyRate       float64 // between the host and each GPU, in bit/s
	NodeReduceRate float64 // over each rank's link while those of one node reduce, in bit/s
	ReduceRate     float64 // the same while all ranks of all nodes do
}

// The IDs of the checks that hold a fleet to a policy and to a baseline, and of the one that
// watches over the policy itself.
const (
	ExpectationID = "expectation"
	DriftID       = "drift"
	PolicyID      = "policy"
)

// Group is a name that the policy gives to nodes. Its statements hold their names already.
type Group struct {
	Name  string
	Nodes []string
	At    string // where it is named, "preflight.yaml:3"
}

// DefaultPolicy is what holds when nobody says otherwise.
func DefaultPolicy() Policy {
	return Policy{
		SHMHeadroom: 256 << 20,
		ClockSkew:   2,
		DiskFree:    1 << 30,
		MemoryFree:  0.10,
		OpenFiles:   4096,
	}
}

// SwitchesOff reports whether a check is not to run.
func (p Policy) SwitchesOff(check string) bool {
	return slices.Contains(p.Skip, check) || len(p.Only) > 0 && !slices.Contains(p.Only, check)
}

// SeverityOf is the severity of a check under the policy.
func (p Policy) SeverityOf(check Check) Severity {
	if severity, stated := p.Severities[check.ID]; stated {
		return severity
	}
	return check.Severity
}

// Weigh is what a finding of a check comes to under the policy, own being the check's
// severity in the catalogue. A check that is raised to an error fails with what it would
// have warned of; one that is an error anyway has milder findings for a reason.
func (p Policy) Weigh(check string, own Severity, verdict Verdict) Verdict {
	severity, stated := p.Severities[check]
	switch {
	case !stated || severity == own || verdict != Fail && verdict != Warn:
		return verdict
	case severity == Warning:
		return Warn
	}
	return Fail
}

// Expectation is what the policy states of one fact.
type Expectation struct {
	// Fact is a path as the diff prints it, "nvml.driver"; a "*" in it stands for any
	// text, so that "net.interfaces.eth*.mtu" is the MTU of each such interface. Two have
	// a short name, "gpu.driver" and "net.mtu".
	Fact string
	// Is lists what is allowed, each a comparison (">=570.86", ">=2.4, <2.6"), a plain
	// value, or "absent". Versions are compared as versions, sizes and rates by their units.
	Is []string
	// Nodes are those it is stated of, with or without a user; none means all.
	Nodes    []string
	Severity Severity // "" weighs as Error where it is missed, and demands no look
	Fix      string   // "" where it says nothing
	At       string   // where it is stated, "preflight.yaml:12"
}

// DriftSeverity is what a change since the baseline weighs.
type DriftSeverity struct {
	Of       string   // a fact, what holds facts, or a topic of drift
	Severity Severity // Off for a change that does not matter
}

// Waiver says that a defect is known: what the check finds on these nodes is shown
// and does not count, up to and including a day.
type Waiver struct {
	Check  string
	Nodes  []string // with or without a user; none means wherever it is found, the launching machine included
	Fact   string   // of which fact a finding is waived, "*" in it as in an [Expectation]; "" for any
	Reason string
	Owner  string
	Until  string // "2026-12-31"
	At     string // where it is stated, "preflight.yaml:31"
}

// KnownBad is a version, or several things together, that is known to fail.
type KnownBad struct {
	ID string `yaml:"id"`
	// When is what must hold at once on a node, by what it is about: {nccl: "<2.29.3", arch: aarch64}.
	When     map[string]string `yaml:"when"`
	Says     string            `yaml:"says"`     // what happens then
	Severity Severity          `yaml:"severity"` // error or warning
	Fixed    string            `yaml:"fixed"`    // the first release without it, "" for none yet
	Cure     string            `yaml:"cure"`     // what to do besides, or instead
	WouldSee string            `yaml:"would_see"`
	Source   string            `yaml:"source"` // where that is said
	At       string            `yaml:"-"`      // where it is stated, "preflight.yaml:12"; "" for our own
}

// Baseline is an earlier look at the fleet, which it is held against.
type Baseline struct {
	File  string // as the user named it, for the command that writes it anew
	Via   string // what takes that to the nodes, as this run was told; "" for ssh
	In    string // what the ranks run in there, as it was told; "" for the nodes themselves
	Head  *facts.Node
	Nodes []facts.Node
	// NotTried are the sections that nobody was to look at then, each with the reason.
	NotTried map[facts.Section]string
	// Unlisted is whether nobody can tell which of Nodes this launch leaves out and which
	// the hostfile has lost: it lies on another machine.
	Unlisted bool
}
