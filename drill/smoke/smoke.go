// SPDX-License-Identifier: Apache-2.0

// Package smoke makes the ranks of a launch compute and communicate before the launch begins. It
// starts a process for each rank on a node, gives it one order after another, and reports what
// happened. [Isolate] plans which nodes to try together until the failing ones are known. That plan
// needs neither a clock nor a network.
//
// A library may hang, crash or return wrong results. So a rank announces each call before it makes
// the call, and each result is verified completely. The parent ends each process when its time is
// over. The package changes no clock and no mode of any device, does not evaluate results, and
// leaves no process and no file behind.
package smoke

import (
	"slices"

	"preflight/facts"
)

// These are the engines.
const (
	Torch  = "torch"  // the launch's interpreter and its torch
	Direct = "direct" // libnccl and libcuda, the same files that the launch's ranks will load
)

// Order is a rank's next task: one line of JSON on the rank's standard input. The rank answers each
// order with one line that has Done or Failed. Before that line, it announces its calls.
type Order struct {
	Do string `json:"do"` // one of the Do… values
	// Seconds is how long to compute (for DoCompute), or the time limit (for all other tasks).
	Seconds float64 `json:"seconds"`
	// These fields describe a group: this rank's number, the number of ranks, where the ranks meet,
	// and how many bytes to reduce.
	Rank  int    `json:"rank"`
	Size  int    `json:"size"`
	Meet  string `json:"meet,omitempty"`
	Bytes int    `json:"bytes,omitempty"`
}

// These are the tasks of a rank. A rank loads without an order; its first answer is the result of
// loading.
const (
	DoCompute = "compute" // exact sums, a sustained load with known results, copies
	DoLoad    = "load"    // only load: answered after loading, which is repeated if the rank had to be ended
	DoMeet    = "meet"    // become rank 0 of a new group, and return where the other ranks meet it
	DoReduce  = "reduce"  // join the group, sum rank+1 over all ranks, verify every element, time it, leave
)

// Word is a line of JSON on a rank's standard output. The rank's standard error is the library's
// log.
type Word struct {
	// At is the call that the rank is about to make.
	At string `json:"at,omitempty"`
	// Done is set if an order was carried out. Failed is set if it was not.
	Done   *Done               `json:"done,omitempty"`
	Failed *facts.SmokeFailure `json:"failed,omitempty"`
}

// Done is the result of an order. Each kind of order sets different fields.
type Done struct {
	// These fields are the result of loading: the device, and the backend for communication.
	Name    string `json:"name,omitempty"`
	Address string `json:"address,omitempty"`
	Backend string `json:"backend,omitempty"`
	// These fields are the result of DoCompute, as in [facts.SmokeRank].
	Rate           float64 `json:"rate,omitempty"`
	HostToDevice   float64 `json:"host_to_device,omitempty"`
	DeviceToHost   float64 `json:"device_to_host,omitempty"`
	DeviceToDevice float64 `json:"device_to_device,omitempty"`
	// Meet is the result of DoMeet: the value for Order.Meet of the group.
	Meet string `json:"meet,omitempty"`
	// BitRate is the result of DoReduce: the rate on the rank's link, as in [facts.SmokeTrial].
	BitRate float64 `json:"bit_rate,omitempty"`
}

// RailTrial is a pair of nodes that must reduce over only one of the rails between them. Pair and
// Rail are numbers.
type RailTrial struct{ Pair, Rail int }

// ByRail tries pairs over each of their rails alone. rails holds the number of rails of each pair.
//
// try runs the trials of one round at the same time, and no node is in two of them. It reports
// whether there was time for the round. If there was no time, ByRail returns the remaining trials.
func ByRail(pairs [][2]int, rails []int, try func(round []RailTrial) (made bool)) (left []RailTrial) {
	for pair, count := range rails {
		for rail := range count {
			left = append(left, RailTrial{pair, rail})
		}
	}
	for len(left) > 0 {
		busy := map[int]bool{}
		var round, later []RailTrial
		for _, trial := range left {
			nodes := pairs[trial.Pair]
			if busy[nodes[0]] || busy[nodes[1]] {
				later = append(later, trial)
				continue
			}
			busy[nodes[0]], busy[nodes[1]] = true, true
			round = append(round, trial)
		}
		if !try(round) {
			return slices.Concat(round, later)
		}
		left = later
	}
	return nil
}
