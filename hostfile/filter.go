// SPDX-License-Identifier: Apache-2.0

package hostfile

import (
	"fmt"
	"slices"
	"strings"
)

// Filter holds deepspeed's options that select hosts and slots of a hostfile.
type Filter struct {
	Include           string // -i, --include: NAME[:SLOT[,SLOT…]][@…]
	Exclude           string // -e, --exclude: the same grammar
	NumNodes, NumGPUs Limit  // --num_nodes and --num_gpus
	// ForceMulti is --force_multi: launch over ssh even if only one host is left.
	ForceMulti bool
	// DeepSpeed is the release whose rules apply. "" or an unreadable version means the newest.
	DeepSpeed string
}

// Limit is the value of --num_nodes or --num_gpus. The zero value means "not given". A given 0
// limits nothing either, but DeepSpeed refuses it together with Include and Exclude.
type Limit struct {
	Given bool
	N     int
}

// AtMost returns the limit for the value of the flag, whose default is -1.
func AtMost(n int) Limit { return Limit{Given: n != -1, N: n} }

// Contradicts reports whether the filter both names hosts and limits their number, which DeepSpeed
// refuses.
func (f Filter) Contradicts() bool {
	counted := func(l Limit) bool { return l.Given && l.N >= 0 }
	return (counted(f.NumNodes) || counted(f.NumGPUs)) && (f.Include != "" || f.Exclude != "")
}

// Given reports whether any option is set. The MPI launchers refuse such a filter.
func (f Filter) Given() bool {
	return f.Include != "" || f.Exclude != "" || f.NumNodes.Given || f.NumGPUs.Given
}

// FilterError describes a filter that DeepSpeed refuses, or that selects no host.
type FilterError struct {
	Option    string // "--include"
	Message   string // what is wrong and what to do
	DeepSpeed string // DeepSpeed's own error message
	NoneLeft  bool   // the filter is readable, but selects no host
}

func (e *FilterError) Error() string { return e.Option + ": " + e.Message }

// Apply returns the selected hosts in hostfile order, with the slots that each host uses. It
// applies the options in DeepSpeed's order: Include or Exclude, then NumNodes, then NumGPUs. It
// does not change the given hosts.
//
// Every error is or wraps a [*FilterError]. Apply reports all wrong host specifications at once,
// but DeepSpeed stops at the first.
func (f Filter) Apply(hosts []Host) ([]Host, []Note, error) {
	if f.Contradicts() {
		return nil, nil, &FilterError{Option: "--num_nodes/--num_gpus", DeepSpeed: "Cannot specify num_nodes/gpus with include/exclude",
			Message: "conflicts with --include and --exclude, even with the value 0: remove one of the two"}
	}
	active, notes, err := f.choose(hosts)
	if err != nil {
		return nil, nil, err
	}
	if len(active) == 0 {
		return nil, notes, f.nothingLeft()
	}
	active, more := f.limitNodes(active)
	notes = append(notes, more...)
	active, more, err = f.limitGPUs(active)
	if err != nil {
		return nil, nil, err
	}
	notes = append(notes, more...)
	if len(active) == 1 && !f.ForceMulti && !isThisMachine(active[0].Name) {
		notes = append(notes, Note{ID: "single-host-runs-here", Line: active[0].Line, Message: fmt.Sprintf(
			"only %s is left: DeepSpeed then starts the ranks on the launching machine and not on %[1]s, but they connect to %[1]s as their master; add --force_multi to run on %[1]s", active[0].Name)})
	}
	return active, notes, nil
}

func isThisMachine(name string) bool {
	return name == "localhost" || name == "127.0.0.1" || name == "::1"
}

// choose applies Include or Exclude. It returns notes even if no host is left, because the notes
// explain the reason.
func (f Filter) choose(hosts []Host) ([]Host, []Note, error) {
	option, text := "--include", f.Include
	if text == "" {
		option, text = "--exclude", f.Exclude
	}
	if text == "" {
		return slices.Clone(hosts), nil, nil
	}
	c := selection{option: option, hosts: hosts, at: map[string]int{}, checked: !f.unchecked()}
	for i, host := range hosts {
		c.at[host.Name] = i
	}
	var specs []spec
	for config := range strings.SplitSeq(text, "@") {
		specs = append(specs, parseSpec(option, config))
	}
	if f.merged() {
		specs = c.merge(specs)
	}
	// DeepSpeed 0.15.2 to 0.19.6 parses --include before it checks whether both options are given.
	if f.Include != "" && f.Exclude != "" && (c.checked || c.bad == nil) {
		return nil, nil, &FilterError{Option: "--include/--exclude", DeepSpeed: "include_str and exclude_str are mutually exclusive.",
			Message: "cannot be given together: write one list"}
	}
	if f.Include != "" {
		c.include(specs)
	} else {
		c.exclude(specs)
	}
	if c.bad != nil {
		return nil, nil, c.bad
	}
	return c.left(), c.notes, nil
}

func (f Filter) nothingLeft() error {
	option, why := "--exclude", "it leaves no host"
	if f.Include != "" {
		option, why = "--include", "none of its hosts has a slot left"
		if f.unchecked() {
			why += `; for DeepSpeed 0.15.2 to 0.19.6, a name alone means no slots: write them out, "w1:0,1,2,3@w2:0,1,2,3"`
		}
	}
	return &FilterError{Option: option, Message: why + " (DeepSpeed fails when it reads the first host)", DeepSpeed: "IndexError: list index out of range", NoneLeft: true}
}

func (f Filter) limitNodes(active []Host) ([]Host, []Note) {
	if f.NumNodes.N <= 0 {
		return active, nil
	}
	n := f.NumNodes.N
	if n > len(active) {
		return active, []Note{{ID: "num-nodes-beyond-hostfile", Message: fmt.Sprintf(
			"--num_nodes %d asks for more than the %d hosts of the hostfile; DeepSpeed silently uses all of them", n, len(active))}}
	}
	return active[:n], nil
}

// limitGPUs gives every host the slots 0 to N-1, even if the host's line has fewer, as DeepSpeed
// does.
func (f Filter) limitGPUs(active []Host) ([]Host, []Note, error) {
	if f.NumGPUs.N <= 0 {
		return active, nil, nil
	}
	n := f.NumGPUs.N
	if n > maxRanks/len(active) {
		return nil, nil, &FilterError{Option: "--num_gpus", Message: fmt.Sprintf(
			"%d on each of %d hosts makes more than %d ranks in total (DeepSpeed would accept it): give the number of accelerators of one host", n, len(active), maxRanks)}
	}
	var short []string
	for i := range active {
		if active[i].Slots != nil && len(active[i].Slots) < n {
			short = append(short, active[i].Name)
		}
		active[i].Slots = FirstSlots(n)
	}
	if short == nil {
		return active, nil, nil
	}
	return active, []Note{{ID: "num-gpus-beyond-slots", Message: fmt.Sprintf(
		"--num_gpus %d exceeds the slots of %s; DeepSpeed starts %[1]d ranks there regardless: lower it, or correct the hostfile", n, Fold(short))}}, nil
}

// merged reports whether DeepSpeed joins several specifications of one host and sorts the host's
// slots, as it does since 0.15.2.
func (f Filter) merged() bool { return !Before(f.DeepSpeed, "0.15.2") }

// unchecked reports whether DeepSpeed does not check the slots in --include against the hostfile,
// and reads a name without slots as no slots at all. It does so from 0.15.2 to 0.19.6 (DeepSpeed
// issue 6671, fixed in 0.19.7).
func (f Filter) unchecked() bool { return f.merged() && Before(f.DeepSpeed, "0.19.7") }

// spec is one NAME[:SLOT[,SLOT…]].
type spec struct {
	host  string
	slots []int        // nil for a name without slots
	bad   *FilterError // set if the specification cannot be parsed
}

func parseSpec(option, config string) spec {
	name, list, hasSlots := strings.Cut(config, ":")
	s := spec{host: name}
	if strings.Contains(list, ":") {
		s.bad = &FilterError{Option: option, DeepSpeed: "too many values to unpack (expected 2)",
			Message: fmt.Sprintf("%q has more than one colon; an IPv6 address or a port cannot be named here: give the host a name in ~/.ssh/config", config)}
		return s
	}
	if !hasSlots {
		return s
	}
	for one := range strings.SplitSeq(list, ",") {
		slot, err := pyInt(one)
		if err != nil {
			s.bad = &FilterError{Option: option, DeepSpeed: err.Error(),
				Message: fmt.Sprintf("%q has %q where a slot number belongs; write each one, like w1:0,1,2,3", config, one)}
			return s
		}
		s.slots = append(s.slots, slot)
	}
	return s
}
