package checks

import "slices"

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
	Waivers    []Waiver
	Groups     []Group

	SHMHeadroom int64   // bytes of /dev/shm beyond NCCL's need, for DataLoader workers
	ClockSkew   float64 // seconds two clocks may differ
	DiskFree    int64   // bytes free where the launch writes
	MemoryFree  float64 // share of the memory that must be available, 0 to 1
	OpenFiles   int64   // hard limit wanted; NCCL raises its soft one to it
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

// weighs is the severity of a check under the policy.
func (p Policy) weighs(check Check) Severity {
	if severity, stated := p.Severities[check.ID]; stated {
		return severity
	}
	return check.Severity
}

// weight is what a finding of a check comes to under the policy, own being the check's
// severity in the catalogue. A check that is raised to an error fails with what it would
// have warned of; one that is an error anyway has milder findings for a reason.
func (p Policy) weight(check string, own Severity, verdict Verdict) Verdict {
	severity, stated := p.Severities[check]
	switch {
	case !stated || severity == own || verdict != Fail && verdict != Warn:
		return verdict
	case severity == Warning:
		return Warn
	}
	return Fail
}
