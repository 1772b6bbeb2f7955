// SPDX-License-Identifier: Apache-2.0

// Package probe reads facts from the machine on which it runs, section by section.
//
// The package only observes: whether a value is good is for package checks to decide. It changes
// nothing. The only thing that it writes is one nameless file in /dev/shm, which is gone before the
// probe returns.
//
// The package starts git, and programs that a launch also starts or asks. If NVIDIA's driver is
// present, it starts itself again to ask the driver, as well as NVIDIA's own tools and systemctl.
// It starts no other programs. Each program has a deadline. The package reads /proc, /sys, /dev and
// /etc below a root that may be a fixture tree; system calls always ask the real machine.
//
// Sections are collected concurrently. A section that crashes or hangs affects no other section.
package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"preflight/facts"
	"preflight/probe/machine"
)

// Options says what to examine, and below which root.
type Options = machine.Options

// Heeded lists the variables whose exported values are in Options.
var Heeded = machine.Heeded

// DefaultDeadline is the time limit for all sections together if Options sets none.
const DefaultDeadline = 32 * time.Second

// Run collects all requested sections concurrently. It calls emit once for each section when the
// section is ready. emit gets facts that have only that section, or the reason why the section is
// missing. Run never makes two calls to emit at the same time, and makes none after it has
// returned. When ctx ends, sections that are not ready are missing.
func Run(ctx context.Context, o Options, sections []facts.Section, emit func(section facts.Section, seen facts.Facts, missing string)) {
	deadline := o.Deadline
	if deadline <= 0 {
		deadline = DefaultDeadline
	}
	ctx, cancel := context.WithTimeoutCause(ctx, deadline-machine.LastWords, fmt.Errorf("not ready within %s, the time limit for the whole node", deadline))
	defer cancel()
	o = o.Together()

	type outcome struct {
		section facts.Section
		seen    facts.Facts
		err     error
	}
	outcomes := make(chan outcome)
	for _, section := range sections {
		go func() {
			seen, err := look(ctx, o, section)
			outcomes <- outcome{section, seen, err}
		}()
	}
	for range sections {
		ready := <-outcomes
		missing := ""
		if ready.err != nil {
			missing = ready.err.Error()
		}
		emit(ready.section, ready.seen, missing)
	}
}

// look runs the collector of one section within the section's limit.
func look(ctx context.Context, o machine.Options, name facts.Section) (seen facts.Facts, err error) {
	at := slices.IndexFunc(Sections, func(row Section) bool { return row.Name == name })
	if at < 0 {
		return seen, fmt.Errorf("this preflight has no collector for %q", name)
	}
	section := Sections[at]
	ctx, cancel := context.WithTimeoutCause(ctx, section.Limit, fmt.Errorf("no answer within %s: %s?", section.Limit, section.Suspect))
	defer cancel()
	seen, err = machine.Within(ctx, func() (facts.Facts, error) { return section.Collect(ctx, o) })
	if err == nil && !seen.Has(name) {
		err = errors.New("the collector returned nothing, which is a bug in preflight")
	}
	return seen, err
}
