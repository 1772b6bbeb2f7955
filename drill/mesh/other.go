// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package mesh

import (
	"context"
	"errors"

	"preflight/facts"
)

// errNotLinux is why other systems take no part in the mesh: no launch runs on
// them, and a calling that costs little has to know the system.
var errNotLinux = errors.New("nodes call each other only on Linux")

// Listener takes the calls of peers.
type Listener struct{}

// Open fails: see errNotLinux.
func Open(Listen) (*Listener, error) { return nil, errNotLinux }

// Listening is nothing.
func (*Listener) Listening() []Listening { return nil }

// Serve returns at once.
func (*Listener) Serve(context.Context) {}

// Run says why it calls nobody.
func (Calls) Run(context.Context) facts.Mesh { return facts.Mesh{Error: errNotLinux.Error()} }
