// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package network

import (
	"preflight/facts"
	"preflight/probe/machine"
)

func qosOf(string) *facts.QoS { return nil }

// Interfaces, routes and sockets come from netlink, which only Linux has.
var CollectNet = machine.Elsewhere[facts.Net]
