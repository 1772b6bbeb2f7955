// Package probe looks at the machine it runs on, section by section.
//
// It observes and never judges: whether a value is good is for package checks.
// It changes nothing (one nameless file in /dev/shm, gone before it returns,
// is all it ever writes), repairs nothing, and starts no program but git, those that
// a launch starts or asks as well and, where NVIDIA shows, itself anew to ask the
// driver, NVIDIA's own tools and systemctl, each within a deadline. It reads /proc, /sys,
// /dev and /etc below a root that may be a fixture tree; system calls always ask
// the real machine.
//
// Sections are looked at concurrently. One that crashes or hangs costs itself.
package probe

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"preflight/facts"
)

// Options are a machine's own.
type Options = options

// DefaultDeadline is for all sections together, when Options names none.
const DefaultDeadline = 32 * time.Second

// lastWords is how much longer a collector that minds its deadline has to say in
// its own words what held it up.
const lastWords = 200 * time.Millisecond

// Options says what to look at and where the roots are. What is alike for all
// nodes of a fleet travels as JSON. The zero value is the machine itself, nothing asked.
type options struct {
	Root        string   `json:"-"`                     // prefix of /proc, /sys, /dev, /etc; "" is the real one
	Names       []string `json:"names,omitempty"`       // hostfile names to resolve
	Master      string   `json:"master,omitempty"`      // name or address of the master, when one is given
	MasterPort  int      `json:"master_port,omitempty"` // 0 when unknown
	Interpreter string   `json:"interpreter,omitempty"` // python to ask; "" is python3 by PATH
	Program     string   `json:"-"`                     // what the launch command begins with; "" is deepspeed
	// Files are the paths that the launch command names, and Head is whether to
	// bring the text of a configuration too, which only the launching machine must.
	Files []facts.LaunchFile `json:"files,omitempty"`
	Head  bool               `json:"-"`
	// Offload are directories that ZeRO moves states to, by role (offload-optimizer,
	// offload-param), to be looked at with the disk.
	Offload  map[string]string `json:"offload,omitempty"`
	WorkDir  string            `json:"workdir,omitempty"` // where the launch runs
	Peers    map[string]string `json:"peers,omitempty"`   // hostfile name → IP address to ask a route for
	Deadline time.Duration     `json:"-"`                 // for all sections together; 0 is DefaultDeadline
}

// at is where an absolute path of the machine lies below the root.
func (o options) at(path string) string {
	return filepath.Join("/", o.Root, path)
}

// without is the machine's path of a file below the root: at turned around.
func (o options) without(path string) string {
	return filepath.Join("/", strings.TrimPrefix(path, strings.TrimSuffix(o.at("/"), "/")))
}

// Run looks at every section asked for, concurrently, and calls emit once for
// each as it is ready: with facts that hold that section alone, or with the
// reason why it is missing. emit is never called twice at a time, and never
// after Run has returned. When ctx ends, what is not ready is missing.
func Run(ctx context.Context, o Options, sections []facts.Section, emit func(section facts.Section, seen facts.Facts, missing string)) {
	deadline := o.Deadline
	if deadline <= 0 {
		deadline = DefaultDeadline
	}
	ctx, cancel := context.WithTimeoutCause(ctx, deadline-lastWords, fmt.Errorf("not ready within %s, the time for the whole node", deadline))
	defer cancel()

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

// look runs one section's collector within its limit.
func look(ctx context.Context, o options, name facts.Section) (seen facts.Facts, err error) {
	at := slices.IndexFunc(Sections, func(row Section) bool { return row.Name == name })
	if at < 0 {
		return seen, fmt.Errorf("this preflight has no collector for %q", name)
	}
	section := Sections[at]
	ctx, cancel := context.WithTimeoutCause(ctx, section.Limit, fmt.Errorf("no answer within %s: %s?", section.Limit, section.Suspect))
	defer cancel()
	found, err := within(ctx, func() (any, error) { return section.Collect(ctx, o) })
	if err != nil {
		return seen, err
	}
	if err := seen.Put(name, found); err != nil {
		return seen, fmt.Errorf("%w, which is a bug in preflight", err)
	}
	if !seen.Has(name) {
		return seen, errors.New("the collector came back with nothing, which is a bug in preflight")
	}
	return seen, nil
}

// within does work in a goroutine of its own. When ctx ends first, the work is
// abandoned, not awaited: a system call on a dead mount cannot be interrupted.
// The error is then the context's cause; a panic is an error like any other.
func within[T any](ctx context.Context, work func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1) // room for one, so that abandoned work can still end
	go func() {
		var end outcome
		defer func() {
			if reason := recover(); reason != nil {
				end = outcome{err: fmt.Errorf("the collector crashed at %s, which is a bug in preflight: %v", origin(), reason)}
			}
			done <- end
		}()
		end.value, end.err = work()
	}()

	var end outcome
	select {
	case end = <-done:
	case <-ctx.Done():
		select {
		case end = <-done:
		case <-time.After(lastWords):
			end.err = ctx.Err()
		}
	}
	if ctx.Err() != nil && errors.Is(end.err, ctx.Err()) {
		end.err = context.Cause(ctx)
	}
	if errors.Is(end.err, context.Canceled) {
		end.err = errors.New("interrupted")
	}
	return end.value, end.err
}

// origin is the file and line that panicked, asked from a deferred function.
func origin() string {
	callers := make([]uintptr, 16)
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers)])
	for {
		frame, more := frames.Next()
		if !strings.HasPrefix(frame.Function, "runtime.") {
			return fmt.Sprintf("%s:%d", filepath.Base(frame.File), frame.Line)
		}
		if !more {
			return "an unknown place"
		}
	}
}
