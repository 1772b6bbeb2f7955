// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// Go looks for garbage when about as much has come as is kept. That is every few MB at first, for which a run whose
// nodes come one upon another spends a fifth of its processor time; and where 10,000 nodes keep a GiB, it takes another.
// So it is looked for when the heap has reached what a fleet of that size may take, and above that when a part has come.
const (
	heapOfRun    = 20 << 20 // bytes
	heapOfNode   = 72 << 10 // bytes: its connection keeps half of that, and what it told a quarter
	leastGarbage = 20       // parts of a hundred of what is looked through
	leastThrough = 4 << 20  // bytes, that Go takes it for at the least
)

// heap is how many bytes of it a run may have before garbage is looked for; 0 before the first.
var heap atomic.Int64

// keepSmall has this process look for garbage as a run of so many nodes should, from now on.
func keepSmall(nodes int) {
	if os.Getenv("GOGC") == "" && heap.Swap(int64(heapOfRun+heapOfNode*nodes)) == 0 {
		whenCollected(nil)
	}
}

// collection is what each of them finds to be garbage, which tells that there was one.
type collection struct{ _ *collection }

// whenCollected says when the next one is.
func whenCollected(*collection) {
	now := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(now)
	kept := int64(now[0].Value.Uint64())
	debug.SetGCPercent(mayCome(heap.Load(), kept, kept+int64(now[1].Value.Uint64()+now[2].Value.Uint64())))
	runtime.SetFinalizer(&collection{}, whenCollected)
}

// mayCome is how much garbage may come for a heap to be that full, of which so much is kept, in parts of a hundred of
// what is looked through: the kept, stacks and variables.
func mayCome(full, kept, through int64) int {
	return int(max((full-kept)*100/max(through, leastThrough), leastGarbage))
}
