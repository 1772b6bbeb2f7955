// SPDX-License-Identifier: Apache-2.0

package facts

import "slices"

// Smoke is one node's part in the smoke test: what its ranks computed, and the trials in which they
// communicated.
type Smoke struct {
	// Engine is what computed and communicated: "torch" in the launch's interpreter, or "direct",
	// which uses only the libraries that its ranks will load. Backend is nccl, gloo, or another
	// name that torch knows.
	Engine  string `json:"engine" fact:"own"`
	Backend string `json:"backend" fact:"own"`
	// Refused is why nothing was tried on this node, "" if it was: a GPU in use, MIG, MPS.
	Refused string `json:"refused,omitempty" fact:"own"`
	// Ranks are the processes that were started on this node, by local rank.
	Ranks []SmokeRank `json:"ranks" fact:"own"`
	// Trials are the trials in which ranks of this node took part, in order. Untried are the stages
	// for which no time was left.
	Trials  []SmokeTrial `json:"trials" fact:"own"`
	Untried []SmokeStage `json:"untried,omitempty" fact:"own"`
	// Fault is what the trials of all nodes together show about this node, "" for no fault. Against
	// are the other nodes involved.
	Fault   SmokeFault `json:"fault,omitempty" fact:"own"`
	Against []string   `json:"against,omitempty" fact:"own"`
	// Left are files in /dev/shm that the test created and could not remove.
	Left []string `json:"left,omitempty" fact:"own"`
}

// A node is slow in the smoke test if it reaches less than this share of the usual value. The usual
// value is the median, if at least UsualFrom nodes have a value. A slow node is tried once more
// with other partners before it is reported.
const (
	SlowCompute = 0.9
	SlowTraffic = 0.8
	UsualFrom   = 4
)

// Usual returns the median, and the higher one of two in the middle. A few slow nodes do not pull
// it down. It returns 0 for no values.
func Usual(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// SmokeStage is a part of the smoke test.
type SmokeStage string

// These are the stages in order. The last ones run only if an earlier one failed or was slow.
const (
	SmokeLoad    SmokeStage = "load"    // start a rank: import torch, open the libraries and the device
	SmokeCompute SmokeStage = "compute" // every rank by itself: exact sums, a load, copies
	SmokeNode    SmokeStage = "node"    // all ranks of one node reduce
	SmokeOne     SmokeStage = "one"     // one rank of each node
	SmokeAll     SmokeStage = "all"     // all ranks
	SmokePair    SmokeStage = "pair"    // two nodes
	SmokeHalf    SmokeStage = "half"    // some of the nodes, if all pairs passed
	SmokeRail    SmokeStage = "rail"    // two nodes that fail or are slow, over one of several ports or interfaces only
)

// SmokeFault is what the trials show about a node.
type SmokeFault string

const (
	FaultAlone  SmokeFault = "alone"  // it fails without any other node
	FaultNode   SmokeFault = "node"   // it fails with every node in Against, and those work without it; if Against is empty, it fails only in larger groups
	FaultEdge   SmokeFault = "edge"   // it fails with Against, and both work with others
	FaultAmong  SmokeFault = "among"  // it fails together with Against, and the trials cannot tell whose fault it is
	FaultCommon SmokeFault = "common" // all nodes fail: a common cause
)

// SmokeRank is one process of the smoke test.
type SmokeRank struct {
	LocalRank int `json:"local_rank"`
	// Device is its accelerator's number on the node, -1 for none. Name and Address are what the
	// device reports; Address is as in a card of section nvml.
	Device  int    `json:"device"`
	Name    string `json:"name,omitempty"`
	Address string `json:"address,omitempty"`
	// Load is how many seconds the start took: importing torch and opening the device.
	Load float64 `json:"load" unit:"s"`
	// Rate is what it computed under load, in operations per second; 0 if it did not get that far.
	Rate float64 `json:"rate"`
	// Copies between the host and the device, and within the device; 0 if there were none.
	HostToDevice   float64 `json:"host_to_device" unit:"bit/s"`
	DeviceToHost   float64 `json:"device_to_host" unit:"bit/s"`
	DeviceToDevice float64 `json:"device_to_device" unit:"bit/s"`
	// Failure is why this rank failed by itself, nil if it did not.
	Failure *SmokeFailure `json:"failure"`
}

// SmokeTrial is one attempt to reduce, as seen by the ranks of this node.
type SmokeTrial struct {
	Stage SmokeStage `json:"stage"`
	// Nodes is how many nodes took part. With names the others if they are few, in all stages but
	// SmokeOne and SmokeAll.
	Nodes int      `json:"nodes"`
	With  []string `json:"with,omitempty"`
	Ranks int      `json:"ranks"` // of all nodes together
	// Rail is the only port or interface of this node that a SmokeRail trial used.
	Rail string `json:"rail,omitempty"`
	// Passed reports whether all ranks of all nodes got the right sum.
	Passed bool `json:"passed"`
	// Seconds is the duration of the trial. Rate is what went over each rank's link in the timed
	// rounds, 2(n-1)/n of the reduced data, as measured by the slowest rank of this node. 0 if the
	// trial failed.
	Seconds float64 `json:"seconds" unit:"s"`
	Rate    float64 `json:"rate" unit:"bit/s"`
	// Failures are the failures of this node's ranks, the earliest first. Empty if only other
	// nodes' ranks failed.
	Failures []SmokeFailure `json:"failures,omitempty"`
}

// SmokeKind is how a rank failed.
type SmokeKind string

const (
	SmokeError  SmokeKind = "error"  // the library returned an error
	SmokeHang   SmokeKind = "hang"   // no answer in time
	SmokeWrong  SmokeKind = "wrong"  // a wrong result
	SmokeCrash  SmokeKind = "crash"  // the process ended
	SmokeStuck  SmokeKind = "stuck"  // it hangs in the kernel, where signals have no effect
	SmokeAbsent SmokeKind = "absent" // something it needs is missing: torch, a library
)

// SmokeFailure is the failure of one rank.
type SmokeFailure struct {
	LocalRank int       `json:"local_rank"`
	Kind      SmokeKind `json:"kind"`
	// Call is what the rank was doing, in the library's words: "import torch", "ncclAllReduce".
	Call string `json:"call"`
	// Message is what went wrong. Log has the library's last lines of output.
	Message string   `json:"message"`
	Log     []string `json:"log,omitempty"`
	// Element is the index of the wrong element, Got its value and Want the right one; nil unless
	// the result was wrong.
	Element *int64   `json:"element,omitempty"`
	Got     *float64 `json:"got,omitempty"` // nil also for NaN, which JSON cannot express
	Want    *float64 `json:"want,omitempty"`
}
