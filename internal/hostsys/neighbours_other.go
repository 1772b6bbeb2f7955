// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package hostsys

import (
	"errors"
	"net/netip"
)

var errNoNeighbours = errors.New("neighbours are known on Linux only")

// NeighbourTables fails.
func NeighbourTables() ([]NeighbourTable, error) { return nil, errNoNeighbours }

// LearnedNeighbours fails.
func LearnedNeighbours() (Learned, error) { return nil, errNoNeighbours }

// NextHopTo fails.
func NextHopTo(netip.Addr, string) (NextHop, error) { return NextHop{}, errNoNeighbours }
