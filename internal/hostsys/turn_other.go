// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package hostsys

import (
	"context"
	"time"
)

// Turn is for Linux alone: elsewhere everybody has it.
type Turn struct{}

// TakeTurn never waits.
func TakeTurn(context.Context, string) (*Turn, time.Duration, error) { return &Turn{}, 0, nil }

// TryTurn never fails.
func TryTurn(string) (*Turn, *Taken) { return &Turn{}, nil }

// End ends nothing.
func (*Turn) End() {}

// WasAskedFor is never known.
func (*Turn) WasAskedFor() bool { return false }

// HasTurn knows nobody.
func HasTurn(string) *Taken { return nil }
