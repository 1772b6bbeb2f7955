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

// What other systems than Linux cannot do, or do not tell: nodes run Linux.

// holder knows nobody.
func holder(net.Conn) *Taken { return &Taken{} }

// dieWithUs does nothing: a child outlives us if it wants to.
func dieWithUs(*syscall.SysProcAttr) {}

// NextHop is as on Linux.
type NextHop struct{ Unanswered bool }

// NextHopTo fails.
func NextHopTo(netip.Addr, string) (NextHop, error) {
	return NextHop{}, errors.New("neighbours are known on Linux only")
}

func sinceBoot() time.Duration { return time.Since(started) }

// active returns a time in which this process wanted to run all the time: whether it did is not known here.
func active() time.Duration { return time.Since(started) }
