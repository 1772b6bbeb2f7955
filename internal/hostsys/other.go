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

// Functions that other systems than Linux do not support. Nodes run Linux.

// holder returns an empty Taken: the holder is unknown.
func holder(net.Conn) *Taken { return &Taken{} }

// dieWithUs does nothing: a child can outlive us.
func dieWithUs(*syscall.SysProcAttr) {}

// NextHop is as on Linux.
type NextHop struct{ Unanswered bool }

// NextHopTo fails.
func NextHopTo(netip.Addr, string) (NextHop, error) {
	return NextHop{}, errors.New("neighbours are known on Linux only")
}

func sinceBoot() time.Duration { return time.Since(started) }

// active returns the time since the start, because it is unknown when this process wanted to run.
func active() time.Duration { return time.Since(started) }
