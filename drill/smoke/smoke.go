// SPDX-License-Identifier: Apache-2.0

// Package smoke lets the ranks of a launch compute and communicate before the launch begins. It
// starts a process for each rank on a node, gives it one order after another, and reports what
// happened. Which nodes to try together, until the failing ones are known, is a plan without clock
// or network ([Isolate]).
//
// A library may hang, crash or return wrong results. So each call is announced before it is made,
// each result is verified completely, and each process is ended by its parent when its time is
// over. The package changes no clock and no mode of any device, does not evaluate results, and
// leaves no process and no file behind.
package smoke

import (
	"slices"

	"preflight/facts"
)

// The engines.
const (
	Torch  = "torch"  // the launch's interpreter and its torch
	Direct = "direct" // libnccl and libcuda, as the ranks will load them
)

// Order is a rank's next task: one line of JSON on its standard input. The rank answers each with
// one line that has Done or Failed, and before that announces its calls.
type Order struct {
	Do string `json:"do"` // one of the Do… values
	// Seconds is how long to compute (DoCompute), or the time limit (all others).
	Seconds float64 `json:"seconds"`
	// For a group: this rank's number, the size, where the ranks meet, and how many bytes to
	// reduce.
	Rank  int    `json:"rank"`
	Size  int    `json:"size"`
	Meet  string `json:"meet,omitempty"`
	Bytes int    `json:"bytes,omitempty"`
}

// These are the tasks of a rank. It loads by itself, as its first answer.
const (
	DoCompute = "compute" // exact sums, a load with known results, copies
	DoLoad    = "load"    // nothing more: answered after loading, which is repeated if the rank had to be ended
	DoMeet    = "meet"    // be rank 0 of a new group, and return where the others meet it
	DoReduce  = "reduce"  // join the group, sum rank+1 over all, verify every element, time it, leave
)

// Word is a line of JSON on a rank's standard output. Its standard error is the library's log.
type Word struct {
	// At is the call that it is about to make.
	At string `json:"at,omitempty"`
	// Done means that an order was carried out, Failed that it was not.
	Done   *Done               `json:"done,omitempty"`
	Failed *facts.SmokeFailure `json:"failed,omitempty"`
}

// Done is the result of an order; each order sets its own fields.
type Done struct {
	// From loading: the device, and the backend for communication.
	Name    string `json:"name,omitempty"`
	Address string `json:"address,omitempty"`
	Backend string `json:"backend,omitempty"`
	// From DoCompute, as in [facts.SmokeRank].
	Rate           float64 `json:"rate,omitempty"`
	HostToDevice   float64 `json:"host_to_device,omitempty"`
	DeviceToHost   float64 `json:"device_to_host,omitempty"`
	DeviceToDevice float64 `json:"device_to_device,omitempty"`
	// Meet is the value for Order.Meet of the group, from DoMeet.
	Meet string `json:"meet,omitempty"`
	// BitRate is what went over the rank's link, from DoReduce, as in [facts.SmokeTrial].
	BitRate float64 `json:"bit_rate,omitempty"`
}

// RailTrial is a pair of nodes that must reduce over only one of the rails between them. Both are
// numbers.
type RailTrial struct{ Pair, Rail int }

// ByRail tries pairs over each of their rails alone; rails has the number of rails of each pair.
//
// try runs the trials of one round at the same time, with no node in two of them, and reports
// whether there was time for them. If there was not, ByRail returns the remaining trials.
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
