// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package hostsys

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// The functions in this file are not supported on systems other than Linux. Nodes run Linux.

// holder returns an empty Taken, because the holder is unknown.
func holder(net.Conn) *Taken { return &Taken{} }

// dieWithUs does nothing, so a child may outlive this process.
func dieWithUs(*syscall.SysProcAttr) {}

// NextHop has the fields of NextHop on Linux that other code uses.
type NextHop struct{ Unanswered bool }

// NextHopTo always fails.
func NextHopTo(netip.Addr, string) (NextHop, error) {
	return NextHop{}, errors.New("neighbours are known on Linux only")
}

func sinceBoot() time.Duration { return time.Since(started) }

// active returns the time since the start, because it is unknown when this process wanted to run.
func active() time.Duration { return time.Since(started) }
