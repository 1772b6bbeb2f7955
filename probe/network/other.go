// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package network

import (
	"preflight/facts"
	"preflight/probe/machine"
)

func qosOf(string) *facts.QoS { return nil }

// Interfaces, routes and sockets come from netlink. Only Linux has netlink.
var CollectNet = machine.Elsewhere[facts.Net]
