// SPDX-License-Identifier: Apache-2.0

package facts

import "slices"

// Smoke is one node's part in the smoke test. It says what the node's ranks computed, and holds the
// trials in which they communicated.
type Smoke struct {
	// Engine is the engine that computed and communicated: "torch" in the launch's interpreter, or
	// "direct", which uses only the libraries that the launch's ranks will load. Backend is nccl,
	// gloo, or another name that torch knows.
	Engine  string `json:"engine" fact:"own"`
	Backend string `json:"backend" fact:"own"`
	// Refused says why nothing was tried on this node: a GPU in use, MIG, MPS. It is "" if the test
	// ran.
	Refused string `json:"refused,omitempty" fact:"own"`
	// Ranks lists the processes that were started on this node, by local rank.
	Ranks []SmokeRank `json:"ranks" fact:"own"`
	// Trials lists the trials in which ranks of this node took part, in order. Untried lists the
	// stages for which no time was left.
	Trials  []SmokeTrial `json:"trials" fact:"own"`
	Untried []SmokeStage `json:"untried,omitempty" fact:"own"`
	// Fault is what the trials of all nodes together show about this node, "" for no fault. Against
	// lists the other nodes involved.
	Fault   SmokeFault `json:"fault,omitempty" fact:"own"`
	Against []string   `json:"against,omitempty" fact:"own"`
	// Left lists the files in /dev/shm that the test created and could not remove.
	Left []string `json:"left,omitempty" fact:"own"`
}

// A node is slow in the smoke test if it reaches less than this share of the usual value. The usual
// value is the median of all nodes, if at least UsualFrom nodes have a value. Before a slow node is
// reported, it is tried a second time with other partners.
const (
	SlowCompute = 0.9
	SlowTraffic = 0.8
	UsualFrom   = 4
)

// Usual returns the median. If two values are in the middle, it returns the higher one, so that a
// few slow nodes do not lower the result. It returns 0 for no values.
func Usual(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// SmokeStage is a part of the smoke test.
type SmokeStage string

// These are the stages in their order. The last ones run only if a stage before them failed or was
// slow.
const (
	SmokeLoad    SmokeStage = "load"    // start a rank: import torch, open the libraries and the device
	SmokeCompute SmokeStage = "compute" // every rank by itself: exact sums, a sustained load, copies
	SmokeNode    SmokeStage = "node"    // all ranks of one node reduce
	SmokeOne     SmokeStage = "one"     // one rank of each node reduce together
	SmokeAll     SmokeStage = "all"     // all ranks reduce together
	SmokePair    SmokeStage = "pair"    // two nodes reduce with each other
	SmokeHalf    SmokeStage = "half"    // some of the nodes reduce together, if all pairs passed
	SmokeRail    SmokeStage = "rail"    // two nodes that fail or are slow reduce over only one of several ports or interfaces
)

// SmokeFault is what the trials show about a node.
type SmokeFault string

const (
	FaultAlone  SmokeFault = "alone"  // the node fails without any other node
	FaultNode   SmokeFault = "node"   // the node fails with every node in Against, and those nodes work without it; if Against is empty, it fails only in larger groups
	FaultEdge   SmokeFault = "edge"   // the node fails with the node in Against, and both work with other nodes
	FaultAmong  SmokeFault = "among"  // the node fails together with the nodes in Against, and the trials cannot tell whose fault it is
	FaultCommon SmokeFault = "common" // all nodes fail, so they have a common cause
)

// SmokeRank is one process of the smoke test.
type SmokeRank struct {
	LocalRank int `json:"local_rank"`
	// Device is the number of the rank's accelerator on the node, -1 for none. Name and Address are
	// what the device reports. Address has the same form as in a card of section nvml.
	Device  int    `json:"device"`
	Name    string `json:"name,omitempty"`
	Address string `json:"address,omitempty"`
	// Load is how many seconds the start took: importing torch and opening the device.
	Load float64 `json:"load" unit:"s"`
	// Rate is what the rank computed under load, in operations per second. It is 0 if the rank
	// failed before that.
	Rate float64 `json:"rate"`
	// These are the rates of copies between the host and the device, and within the device; 0 if
	// there were none.
	HostToDevice   float64 `json:"host_to_device" unit:"bit/s"`
	DeviceToHost   float64 `json:"device_to_host" unit:"bit/s"`
	DeviceToDevice float64 `json:"device_to_device" unit:"bit/s"`
	// Failure says why this rank failed by itself, nil if it did not.
	Failure *SmokeFailure `json:"failure"`
}

// SmokeTrial is one attempt to reduce, as seen by the ranks of this node.
type SmokeTrial struct {
	Stage SmokeStage `json:"stage"`
	// Nodes is how many nodes took part. With lists the other nodes by name if they are few. It is
	// set in all stages except SmokeOne and SmokeAll.
	Nodes int      `json:"nodes"`
	With  []string `json:"with,omitempty"`
	Ranks int      `json:"ranks"` // number of ranks of all nodes together
	// Rail is the only port or interface of this node that a trial of stage SmokeRail used.
	Rail string `json:"rail,omitempty"`
	// Passed reports whether all ranks of all nodes got the correct sum.
	Passed bool `json:"passed"`
	// Seconds is the duration of the trial. Rate is the data that passed over each rank's link in
	// the timed rounds, 2(n-1)/n of the reduced data. The slowest rank of this node measures it.
	// Rate is 0 if the trial failed.
	Seconds float64 `json:"seconds" unit:"s"`
	Rate    float64 `json:"rate" unit:"bit/s"`
	// Failures lists the failures of this node's ranks, the earliest first. It is empty if only the
	// ranks of other nodes failed.
	Failures []SmokeFailure `json:"failures,omitempty"`
}

// SmokeKind says how a rank failed.
type SmokeKind string

const (
	SmokeError  SmokeKind = "error"  // the library returned an error
	SmokeHang   SmokeKind = "hang"   // the rank gave no answer in time
	SmokeWrong  SmokeKind = "wrong"  // the rank computed a wrong result
	SmokeCrash  SmokeKind = "crash"  // the process ended
	SmokeStuck  SmokeKind = "stuck"  // the process hangs in the kernel, where signals have no effect
	SmokeAbsent SmokeKind = "absent" // something that the rank needs is missing: torch, a library
)

// SmokeFailure is the failure of one rank.
type SmokeFailure struct {
	LocalRank int       `json:"local_rank"`
	Kind      SmokeKind `json:"kind"`
	// Call is what the rank was doing, named as the library names it: "import torch",
	// "ncclAllReduce".
	Call string `json:"call"`
	// Message says what went wrong. Log holds the library's last lines of output.
	Message string   `json:"message"`
	Log     []string `json:"log,omitempty"`
	// Element is the index of the wrong element, Got is its value and Want is the correct value.
	// All three are nil unless the result was wrong.
	Element *int64   `json:"element,omitempty"`
	Got     *float64 `json:"got,omitempty"` // nil also for NaN, which JSON cannot express
	Want    *float64 `json:"want,omitempty"`
}
