// SPDX-License-Identifier: Apache-2.0

// Package mesh has nodes call each other: on the addresses and ports a launch
// will use, with full packets, in both directions. What became of a call that
// failed is told apart as far as the caller can: refused, dropped, prohibited by
// a router or by the own routing table, taken and not answered, answered by
// somebody else, answered until a packet is full.
//
// It refuses to repeat what failed, to be disturbed by strangers, who are told
// nothing, and to leave anything behind in the kernel: a caller resets what it is
// through with.
//
// All calls of a node are one goroutine's, which waits for their sockets by a
// poll set of its own. With package net, a goroutine and bounded calls each, the
// same is 350 lines shorter, and 128 nodes on two processors (BenchmarkMesh) took
// 2.7 to 3.3 s of their time instead of 1.3 s and 1.7 to 2.8 s in all instead of
// 0.8 s; so long that some of 16,384 calls ran out of it, which is a false
// verdict. Calling the kernel behind the back of Go's scheduler would save another
// quarter, and is not worth what it takes.
package mesh

import (
	"errors"
	"fmt"
	"time"
)

// The times of a call nest: connecting and what follows fit into the deadline
// of all calls together, and that into the five seconds in which a fault is to
// be named. They are long for a network, and right for 128 nodes that share two
// processors.
const (
	connectTime  = 1500 * time.Millisecond
	exchangeTime = 3 * time.Second // hello, answer and the payloads
	// stepsTime is the last part of it, in which a call that has no answer yet is
	// repeated step by step.
	stepsTime = 2 * time.Second
	// callPatience is how long a call that only waits keeps another from
	// starting: a node that nobody answers still calls everybody.
	callPatience = 50 * time.Millisecond
)

// Listen is what a node is to listen on.
type Listen struct {
	Token     string   `json:"token"` // alike on all nodes of a run
	Node      string   `json:"node"`  // what it answers for
	Addresses []string `json:"addresses"`
	// Bound are interfaces by the addresses at which nobody is heard who comes by another one, as
	// an adapter hears nothing of what reaches its neighbour.
	Bound map[string]string `json:"bound,omitempty"`
	// Low and High bound the ports that the kernel gives out by itself, both
	// included; anything that is no range stands for Linux' default.
	Low  int `json:"low"`
	High int `json:"high"`
}

// Listening is where a node listens.
type Listening struct {
	Address string `json:"address"`
	Ports   []int  `json:"ports"` // one in each third of the range
	Error   string `json:"error,omitempty"`
}

// defaultLow and defaultHigh are Linux' net.ipv4.ip_local_port_range.
const (
	defaultLow  = 32768
	defaultHigh = 60999
)

// check makes the range one, and says what else is wrong.
func (l *Listen) check() error {
	switch {
	case l.Token == "":
		return errors.New("listening needs a token: without one every caller would pass as a peer")
	case l.Node == "", len(l.Node) > maxName:
		return fmt.Errorf("listening needs a node name of 1 to %d bytes, not %q", maxName, l.Node)
	}
	if l.Low <= 0 || l.High < l.Low || l.High > 65535 {
		l.Low, l.High = defaultLow, defaultHigh
	}
	return nil
}

// Peer is a node to call, at one of its addresses.
type Peer struct {
	Name    string `json:"name"`
	Address string `json:"address"` // an IP address, with a zone where it needs one
	Ports   []int  `json:"ports"`   // that it listens on
	Control int    `json:"control"` // its ssh port, 0 when unknown
}

// Calls are what one node is to find out by calling the others.
type Calls struct {
	Token string `json:"token"` // alike on all nodes of a run
	Node  string `json:"node"`  // the caller's own name
	// Peers are called in this order, from the caller's own place on, so that
	// callers with the same list do not call the same node at once. The caller
	// itself is among them: NAT and hairpins show there.
	Peers []Peer `json:"peers"`
	// AllPorts has every port of every peer called. Otherwise it is one each,
	// which differs with the places of caller and peer in the list: where all
	// callers have the same list, every port is called by somebody.
	AllPorts bool          `json:"all_ports"`
	Deadline time.Duration `json:"deadline"` // for all calls together
	// Interface is the one that alone carries the calls, from the own address From: how an adapter
	// of RoCE sends. Where both are "" the kernel chooses, as it does for sockets.
	Interface string `json:"interface,omitempty"`
	From      string `json:"from,omitempty"`
}
