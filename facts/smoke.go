// SPDX-License-Identifier: Apache-2.0

package facts

import "slices"

// Smoke is one node's part in the smoke test: what its ranks computed, and what came of the
// trials in which they talked to each other.
type Smoke struct {
	// Engine is what computed and talked: torch, as the interpreter of the launch has it, or
	// direct, the libraries alone that its ranks will load. Backend is what carried it: nccl,
	// gloo, or another that torch names.
	Engine  string `json:"engine" fact:"own"`
	Backend string `json:"backend" fact:"own"`
	// Refused is why nothing was tried here, "" where it was: a card in use, MIG, MPS.
	Refused string `json:"refused,omitempty" fact:"own"`
	// Ranks are the processes that were started here, by local rank.
	Ranks []SmokeRank `json:"ranks" fact:"own"`
	// Trials are those in which ranks of this node took part, in the order in which they
	// were made. What did not come to be tried for want of time is in Untried.
	Trials  []SmokeTrial `json:"trials" fact:"own"`
	Untried []SmokeStage `json:"untried,omitempty" fact:"own"`
	// Fault is what the trials of all nodes together say of this one, "" for nothing, and
	// Against the other nodes that it is about.
	Fault   SmokeFault `json:"fault,omitempty" fact:"own"`
	Against []string   `json:"against,omitempty" fact:"own"`
	// Left are files in /dev/shm that the test made, and that it could not remove.
	Left []string `json:"left,omitempty" fact:"own"`
}

// What is slow in a smoke test: less than a share of what is usual, which is the median where so many nodes tell of
// it. Who is slow is tried once more, with others, before anything is said of it.
const (
	SlowCompute = 0.9
	SlowTraffic = 0.8
	UsualFrom   = 4
)

// Usual is the median of what many tell, of two in the middle the higher one, which a few slow ones do not pull
// down; 0 of nothing.
func Usual(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// SmokeStage is a part of the smoke test.
type SmokeStage string

// The stages, in their order; the last ones only where an earlier one failed.
const (
	SmokeLoad    SmokeStage = "load"    // start a rank: import torch, open the libraries and the device
	SmokeCompute SmokeStage = "compute" // every rank by itself: exact sums, a load, copies
	SmokeNode    SmokeStage = "node"    // all ranks of a node reduce, and no other
	SmokeOne     SmokeStage = "one"     // one rank of each node
	SmokeAll     SmokeStage = "all"     // all ranks
	SmokePair    SmokeStage = "pair"    // two nodes
	SmokeHalf    SmokeStage = "half"    // some of the nodes, where all pairs passed
	SmokeRail    SmokeStage = "rail"    // two nodes that cannot or are slow, by one of several ports or interfaces alone
)

// SmokeFault is what the trials say of a node.
type SmokeFault string

const (
	FaultAlone  SmokeFault = "alone"  // it fails without any other node
	FaultNode   SmokeFault = "node"   // it fails with all of Against, who are well without it; with none, only in larger company
	FaultEdge   SmokeFault = "edge"   // it fails with Against, and both are well with others
	FaultAmong  SmokeFault = "among"  // it fails together with Against, and it is not known whose fault it is
	FaultCommon SmokeFault = "common" // nobody came through: a cause of all
)

// SmokeRank is one process of the smoke test.
type SmokeRank struct {
	LocalRank int `json:"local_rank"`
	// Device is the accelerator that it takes of those that the node has, -1 for none; Name
	// and Address are what it says of it, the latter as in a card of section nvml.
	Device  int    `json:"device"`
	Name    string `json:"name,omitempty"`
	Address string `json:"address,omitempty"`
	// Load is how long starting it took, import of torch and opening of the device, in seconds.
	Load float64 `json:"load" unit:"s"`
	// Rate is what it computed under load, in operations a second; 0 where it came to none.
	Rate float64 `json:"rate"`
	// Copies between the host and the device, and within the device; 0 where there are none.
	HostToDevice   float64 `json:"host_to_device" unit:"bit/s"`
	DeviceToHost   float64 `json:"device_to_host" unit:"bit/s"`
	DeviceToDevice float64 `json:"device_to_device" unit:"bit/s"`
	// Failure is why it got no further by itself, nil where it did.
	Failure *SmokeFailure `json:"failure"`
}

// SmokeTrial is one attempt to reduce, as the ranks of this node met it.
type SmokeTrial struct {
	Stage SmokeStage `json:"stage"`
	// Nodes is how many took part, With the others of a few (of all but SmokeOne and SmokeAll).
	Nodes int      `json:"nodes"`
	With  []string `json:"with,omitempty"`
	Ranks int      `json:"ranks"` // of all nodes together
	// Rail is the port or the interface of this node by which alone it went (of SmokeRail).
	Rail string `json:"rail,omitempty"`
	// Passed is whether all ranks of all nodes had the right sum.
	Passed bool `json:"passed"`
	// Seconds are those from the first word to the last; Rate is what went over each rank's link in the
	// timed rounds, by the slowest rank of this node: 2(n-1)/n of what is reduced. 0 where it failed.
	Seconds float64 `json:"seconds" unit:"s"`
	Rate    float64 `json:"rate" unit:"bit/s"`
	// Failures are what ranks of this node met, the first to fail first; none where it was others' alone.
	Failures []SmokeFailure `json:"failures,omitempty"`
}

// SmokeKind is how a rank failed.
type SmokeKind string

const (
	SmokeError  SmokeKind = "error"  // the library said so
	SmokeHang   SmokeKind = "hang"   // nothing came within the time
	SmokeWrong  SmokeKind = "wrong"  // an answer came that is wrong
	SmokeCrash  SmokeKind = "crash"  // the process ended
	SmokeStuck  SmokeKind = "stuck"  // it hangs where no signal reaches it
	SmokeAbsent SmokeKind = "absent" // there is nothing to do it with: no torch, no library
)

// SmokeFailure is what one rank met.
type SmokeFailure struct {
	LocalRank int       `json:"local_rank"`
	Kind      SmokeKind `json:"kind"`
	// Call is what it was at, in the library's own words: "import torch", "ncclAllReduce".
	Call string `json:"call"`
	// Message is what went wrong; Log is what the library said besides, its last lines.
	Message string   `json:"message"`
	Log     []string `json:"log,omitempty"`
	// Element is which of an answer's is wrong, and what it is and should be; of no wrong answer nil.
	Element *int64   `json:"element,omitempty"`
	Got     *float64 `json:"got,omitempty"` // nil also of a NaN, which JSON has no word for
	Want    *float64 `json:"want,omitempty"`
}
