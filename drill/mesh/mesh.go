// SPDX-License-Identifier: Apache-2.0

// Package mesh makes nodes call each other on the addresses and ports that a launch will use. A call
// sends full packets in both directions, so one call for each pair is enough if the other node only
// connects ([Peer].Knock). It distinguishes failed calls as far as the caller can. A call
// may be refused, dropped, or prohibited by a router or by the caller's routing table. It may be
// accepted and not answered, answered by another program, or answered until a packet is full.
//
// The package does not repeat what failed, and it sends nothing to strangers. It leaves nothing
// behind in the kernel, because a caller resets finished connections.
//
// One goroutine makes all calls of a node and waits for their sockets with its own poll set. With
// package net and one goroutine per call, the code would be 350 lines shorter. But with 128 nodes
// on two CPUs (BenchmarkMesh), that took 2.7 to 3.3 s of CPU time instead of 1.3 s, and 1.7 to 2.8
// s in total instead of 0.8 s. Some of the 16,384 calls ran out of time, which is a false verdict.
// Bypassing Go's scheduler with raw system calls would save another quarter, and is not worth the
// effort.
package mesh

import (
	"errors"
	"fmt"
	"time"
)

// The time limits are nested. Connecting and the exchange fit into the deadline of all calls
// together, and that deadline fits into the five seconds in which preflight must name a fault. The
// limits are long for a network, and suitable for 128 nodes that share two CPUs.
const (
	connectTime  = 1500 * time.Millisecond
	exchangeTime = 3 * time.Second // for hello, answer and the payloads
	// stepsTime is the last part of exchangeTime. In it, a call without an answer is repeated step
	// by step.
	stepsTime = 2 * time.Second
	// callPatience is how long a waiting call delays the start of another call. It is limited
	// because a node that gets no answers must still call all peers.
	callPatience = 50 * time.Millisecond
)

// Listen says where a node must listen.
type Listen struct {
	Token     string   `json:"token"` // token that all nodes of a run share
	Node      string   `json:"node"`  // the name that the node uses in its answers
	Addresses []string `json:"addresses"`
	// Bound maps addresses to interfaces. At such an address, the node does not accept connections
	// that arrive on another interface. The reason is that an adapter gets no packets of the
	// adapter next to it.
	Bound map[string]string `json:"bound,omitempty"`
	// Low and High are the bounds of the kernel's ephemeral port range, both inclusive. If the
	// range is invalid, Linux's default is used.
	Low  int `json:"low"`
	High int `json:"high"`
}

// Listening says where a node listens.
type Listening struct {
	Address string `json:"address"`
	Ports   []int  `json:"ports"` // one port in each third of the range
	Error   string `json:"error,omitempty"`
}

// defaultLow and defaultHigh are the default bounds of Linux's net.ipv4.ip_local_port_range.
const (
	defaultLow  = 32768
	defaultHigh = 60999
)

// check replaces an invalid range with the default, and returns an error for any other invalid
// value.
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
	Address string `json:"address"` // an IP address, with a zone if it needs one
	Ports   []int  `json:"ports"`   // ports on which the peer listens
	Control int    `json:"control"` // the peer's ssh port, 0 if unknown
	// Knock makes the node only connect to the peer and send nothing. This shows whether connections
	// in this direction work, and costs a third of a call. It is enough if the peer calls this node,
	// because a call sends full packets in both directions.
	Knock bool `json:"knock,omitempty"`
}

// Calls describes the calls that one node must make.
type Calls struct {
	Token string `json:"token"` // token that all nodes of a run share
	Node  string `json:"node"`  // the caller's own name
	// Peers lists the nodes to call. The calls start at the caller's own position in the list. So
	// callers with the same list do not call the same node at the same time. The list includes the
	// caller itself, which shows problems with NAT and hairpinning.
	Peers []Peer `json:"peers"`
	// AllPorts makes the node call every port of every peer. Without AllPorts, each call uses one
	// port, which depends on the positions of caller and peer in the list. If all callers have the
	// same list, every port is called.
	AllPorts bool          `json:"all_ports"`
	Deadline time.Duration `json:"deadline"` // time limit for all calls together
	// Interface is the only interface for the calls, and From is their source address; RoCE
	// adapters send in this way. If both are "", the kernel chooses, as it does for sockets.
	Interface string `json:"interface,omitempty"`
	From      string `json:"from,omitempty"`
}
