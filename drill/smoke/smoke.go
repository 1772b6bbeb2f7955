// SPDX-License-Identifier: Apache-2.0

// Package smoke has the ranks of a launch compute and talk before it begins: it starts a
// process for each on a node, has them do one thing after another, and says what each met.
// Which nodes are to try what together, until it is known who cannot, is a plan without
// clock or network ([Isolate]).
//
// A library that is asked to talk may hang, crash or answer wrongly, and so each call is
// announced before it is made, each answer is verified whole, and each process is ended by
// its parent when its time is over. The package changes no clock and no mode of any device,
// judges nothing, and leaves no process and no file behind.
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

// Order is what a rank is to do next: one line of JSON on its standard input. It answers each
// by one line that has Done or Failed, and announces before that what it is at.
type Order struct {
	Do string `json:"do"` // a value of Do…
	// Seconds is for how long (of DoCompute), or within how many to be done (of all others).
	Seconds float64 `json:"seconds"`
	// Of a group: which of so many it is, where they meet, and how much to reduce.
	Rank  int    `json:"rank"`
	Size  int    `json:"size"`
	Meet  string `json:"meet,omitempty"`
	Bytes int    `json:"bytes,omitempty"`
}

// What a rank can be told to do. It loads by itself, as its first answer.
const (
	DoCompute = "compute" // exact sums, a load with known answers, copies
	DoLoad    = "load"    // nothing more: answered when it has loaded, anew where it had to be ended
	DoMeet    = "meet"    // be rank 0 of a group to come, and say where or by what the others meet it
	DoReduce  = "reduce"  // join the group, sum rank+1 over all, look at every element, time it, leave
)

// Word is a line of a rank's standard output: JSON. Its standard error is the library's log.
type Word struct {
	// At is what it is about to call.
	At string `json:"at,omitempty"`
	// Done says that an order was carried out, Failed that it was not.
	Done   *Done               `json:"done,omitempty"`
	Failed *facts.SmokeFailure `json:"failed,omitempty"`
}

// Done is what came of an order; each has what it says.
type Done struct {
	// Of loading: what it computes on, and by what it talks.
	Name    string `json:"name,omitempty"`
	Address string `json:"address,omitempty"`
	Backend string `json:"backend,omitempty"`
	// Of DoCompute, as in [facts.SmokeRank].
	Rate           float64 `json:"rate,omitempty"`
	HostToDevice   float64 `json:"host_to_device,omitempty"`
	DeviceToHost   float64 `json:"device_to_host,omitempty"`
	DeviceToDevice float64 `json:"device_to_device,omitempty"`
	// Meet is what Order.Meet of the group is to be (of DoMeet).
	Meet string `json:"meet,omitempty"`
	// BitRate is what went over the rank's link (of DoReduce), as in [facts.SmokeTrial].
	BitRate float64 `json:"bit_rate,omitempty"`
}

// RailTrial is a pair of nodes that is to reduce by one of the rails between the two, and no other. Both are known
// by their number.
type RailTrial struct{ Pair, Rail int }

// ByRail has pairs tried by each of their rails alone, rails being how many each has.
//
// try makes the trials of one round at once, no node in two of them, and says whether there was time for them.
// Where there was not, those that are left are returned.
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
