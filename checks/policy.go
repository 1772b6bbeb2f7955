// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"slices"

	"preflight/facts"
)

// Policy holds the settings that a team may choose: thresholds, which checks run, the severities of
// the checks, expectations for nodes, and known defects.
type Policy struct {
	Only []string // IDs of the checks to run; empty means all
	Skip []string // IDs of the checks not to run
	// Strict makes the run fail if there are warnings.
	Strict bool
	// Baseline is the run that drift compares the fleet with, or nil for none.
	Baseline *Baseline

	File       string              // path of the file with the settings below, "" for none
	Today      string              // today's date, such as "2026-11-21", to expire waivers; "" if unknown
	Expect     []Expectation       // all valid, see agreement.ValidExpectation
	Severities map[string]Severity // severities by check ID
	Drift      []DriftSeverity     // severities of single changes; if two entries are equally specific, the later entry wins
	Waivers    []Waiver
	Groups     []Group
	KnownBad   []KnownBad // known defects in addition to preflight's own list

	SHMHeadroom int64    // bytes of /dev/shm beyond NCCL's need, for DataLoader workers
	ClockSkew   float64  // largest allowed difference between two clocks, in seconds
	DiskFree    int64    // bytes that must be free where the launch writes
	MemoryFree  float64  // share of the memory that must be available, 0 to 1
	Shared      []string // directories that all nodes must share
	OpenFiles   int64    // hard limit that every node should have; NCCL raises its soft limit to the hard limit

	// Minimum rates for the smoke test, 0 for none. There are no defaults, because they depend on
	// the hardware.
	ComputeRate    float64 // rate of every rank, in operations a second
	CopyRate       float64 // rate between the host and each GPU, in bit/s
	NodeReduceRate float64 // rate over each rank's link during all-reduce within one node, in bit/s
	ReduceRate     float64 // rate over each rank's link during all-reduce over all ranks, in bit/s
}

// IDs of the checks that compare a fleet with a policy and with a baseline, and of the check of the
// policy itself.
const (
	ExpectationID = "expectation"
	DriftID       = "drift"
	PolicyID      = "policy"
)

// Group is a name that the policy gives to a set of nodes. The statements of the policy already
// hold the names of the nodes instead of the group's name.
type Group struct {
	Name  string
	Nodes []string
	At    string // the place of the definition, such as "preflight.yaml:3"
}

// DefaultPolicy returns the policy that applies if there are no settings.
func DefaultPolicy() Policy {
	return Policy{
		SHMHeadroom: 256 << 20,
		ClockSkew:   2,
		DiskFree:    1 << 30,
		MemoryFree:  0.10,
		OpenFiles:   4096,
	}
}

// SwitchesOff reports whether the policy excludes a check from the run.
func (p Policy) SwitchesOff(check string) bool {
	return slices.Contains(p.Skip, check) || len(p.Only) > 0 && !slices.Contains(p.Only, check)
}

// SeverityOf returns the severity of a check under the policy.
func (p Policy) SeverityOf(check Check) Severity {
	if severity, stated := p.Severities[check.ID]; stated {
		return severity
	}
	return check.Severity
}

// Weigh returns the verdict of a finding under the policy. own is the check's severity in the
// catalogue. If the policy raises a check to error, the check's warnings become failures. A check
// that is already an error in the catalogue keeps its milder findings as warnings.
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

// Expectation is one statement of the policy about a fact.
type Expectation struct {
	// Fact is a path as the diff prints it, such as "nvml.driver". "*" stands for any text:
	// "net.interfaces.eth*.mtu" is the MTU of every interface whose name begins with "eth". Two
	// facts have a short name: "gpu.driver" and "net.mtu".
	Fact string
	// Is lists the allowed values, each a comparison (">=570.86", ">=2.4, <2.6"), a plain value or
	// "absent". Versions are compared as versions, and sizes and rates by their units.
	Is []string
	// Nodes lists the nodes that the expectation applies to, with or without a user; none means
	// all.
	Nodes    []string
	Severity Severity // "" counts as Error if a node misses it, but does not require that the fact was collected
	Fix      string   // "" counts as Error if a node misses it, but does not require that the fact was collected
	At       string   // its place in the policy, such as "preflight.yaml:12"
}

// DriftSeverity is the severity that the policy gives to some changes since the baseline.
type DriftSeverity struct {
	Of       string   // a fact, a path above facts, or a topic of drift
	Severity Severity // Off if the change does not matter
}

// Waiver marks a defect as known. Until the end of a day, findings of the check on these nodes are
// shown but do not count.
type Waiver struct {
	Check  string
	Nodes  []string // names with or without a user; none means all nodes and the launching machine
	Fact   string   // the fact of the waived findings, with "*" as in an [Expectation]; "" for any
	Reason string
	Owner  string
	Until  string // the last day on which the waiver applies, such as "2026-12-31"
	At     string // its place in the policy, such as "preflight.yaml:31"
}

// KnownBad is a version, or a combination of properties, that is known to fail.
type KnownBad struct {
	ID string `yaml:"id"`
	// When holds the conditions by property, such as {nccl: "<2.29.3", arch: aarch64}. A node must
	// meet all of them.
	When     map[string]string `yaml:"when"`
	Says     string            `yaml:"says"`     // what happens on such a node
	Severity Severity          `yaml:"severity"` // error or warning
	Fixed    string            `yaml:"fixed"`    // the first release without the defect, "" if there is none yet
	Cure     string            `yaml:"cure"`     // another fix, in addition to an update or instead of it
	WouldSee string            `yaml:"would_see"`
	Source   string            `yaml:"source"` // the source of the entry
	At       string            `yaml:"-"`      // its place in the policy, such as "preflight.yaml:12"; "" for entries of preflight's own list
}

// Baseline is an earlier run with which the fleet is compared.
type Baseline struct {
	File  string // the path as the user typed it, for the command that writes a new baseline
	Via   string // the value of --via in this run, "" for ssh
	In    string // the value of --in in this run, "" for the nodes themselves
	Head  *facts.Node
	Nodes []facts.Node
	// NotTried maps each section that the baseline run did not collect to the reason.
	NotTried map[facts.Section]string
	// Unlisted means that the hostfile is on another machine. preflight then cannot tell which of
	// Nodes this launch excludes and which were removed from the hostfile.
	Unlisted bool
}
