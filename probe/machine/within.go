// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Within runs work in a separate goroutine. If ctx ends first, Within abandons the work, because a
// system call on a dead mount cannot be interrupted. In that case the error is the context's cause.
// Within returns a panic as an error too.
func Within[T any](ctx context.Context, work func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1) // buffered, so that the goroutine of abandoned work can still end
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
		case <-time.After(LastWords):
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

// Ahead returns a context that ends before ctx does, by the given duration. If ctx has no deadline,
// the two end together.
func Ahead(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	deadline, limited := ctx.Deadline()
	if !limited {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-by))
}

// origin returns the file and line that panicked. It must be called from a deferred function.
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

// LastWords is additional time for a collector that respects its deadline. In this time the
// collector itself can report what delayed it.
const LastWords = 200 * time.Millisecond

// Elsewhere is the collector of a section on systems other than Linux.
func Elsewhere[T any](context.Context, Options) (*T, error) {
	return nil, errors.New("preflight looks at Linux machines only")
}

// VersionLimit is the time limit for a program that only prints its version.
const VersionLimit = 2 * time.Second
