// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// By default Go collects garbage whenever the heap has doubled. While the heap is small, that
// happens every few MB, which costs a run with many nodes a fifth of its CPU time. With 10,000
// nodes and 1 GiB of live data, the default doubles the memory. So this package starts a collection
// when the heap reaches the size that a fleet of this size needs. Above that size it starts one
// after a fixed share of growth.
const (
	heapOfRun    = 20 << 20 // bytes
	heapOfNode   = 72 << 10 // bytes; the node's connection takes half of them, its facts a quarter
	leastGarbage = 20       // percent of the memory that a collection scans
	leastThrough = 4 << 20  // bytes; the Go runtime assumes at least this much
)

// heap is how many bytes a run may allocate before a collection. It is 0 until the first call of
// keepSmall.
var heap atomic.Int64

// keepSmall sets when this process collects garbage, for a run with the given number of nodes.
func keepSmall(nodes int) {
	if os.Getenv("GOGC") == "" && heap.Swap(int64(heapOfRun+heapOfNode*nodes)) == 0 {
		whenCollected(nil)
	}
}

// collection becomes garbage as soon as it is allocated. Its finalizer therefore runs after every
// collection.
type collection struct{ _ *collection }

// whenCollected sets the heap size at which the next collection starts.
func whenCollected(*collection) {
	now := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(now)
	kept := int64(now[0].Value.Uint64())
	debug.SetGCPercent(mayCome(heap.Load(), kept, kept+int64(now[1].Value.Uint64()+now[2].Value.Uint64())))
	runtime.SetFinalizer(&collection{}, whenCollected)
}

// mayCome returns how much garbage may accumulate until the heap is full, given how much data is
// kept now. The result is in percent of what a collection scans: kept data, stacks and variables.
func mayCome(full, kept, through int64) int {
	return int(max((full-kept)*100/max(through, leastThrough), leastGarbage))
}
