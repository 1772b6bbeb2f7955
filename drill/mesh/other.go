// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package mesh

import (
	"context"
	"errors"

	"preflight/facts"
)

// errNotLinux says why other systems take no part in the mesh. No launch runs on them, and the
// efficient way to make many calls depends on the system.
var errNotLinux = errors.New("nodes call each other only on Linux")

// Listener accepts the calls of peers.
type Listener struct{}

// Open fails: see errNotLinux.
func Open(Listen) (*Listener, error) { return nil, errNotLinux }

// Listening returns nothing.
func (*Listener) Listening() []Listening { return nil }

// Serve does nothing and returns at once.
func (*Listener) Serve(context.Context) {}

// Run makes no calls and returns the reason.
func (Calls) Run(context.Context) facts.Mesh { return facts.Mesh{Error: errNotLinux.Error()} }
