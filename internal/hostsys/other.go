// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package hostsys

import (
	"context"
	"errors"
	"net/netip"
	"syscall"
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

// dieWithUs is for Linux alone: elsewhere a child outlives us if it wants to.
func dieWithUs(*syscall.SysProcAttr) {}

var errNoNeighbours = errors.New("neighbours are known on Linux only")

// NeighbourTables fails.
func NeighbourTables() ([]NeighbourTable, error) { return nil, errNoNeighbours }

// LearnedNeighbours fails.
func LearnedNeighbours() (Learned, error) { return nil, errNoNeighbours }

// NextHopTo fails.
func NextHopTo(netip.Addr, string) (NextHop, error) { return NextHop{}, errNoNeighbours }

func sinceBoot() time.Duration { return time.Since(started) }

// active returns a time in which this process wanted to run all the time: whether it did is not known here.
func active() time.Duration { return time.Since(started) }
