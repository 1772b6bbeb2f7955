// SPDX-License-Identifier: Apache-2.0

package broadcast

import (
	"testing"
	"time"

	"preflight/remote"
)

// TestDue: of the beats for many tasks no more are sent than one task alone would have twice, and
// none of them waits longer for one than that.
func TestDue(t *testing.T) {
	const long = time.Minute
	for _, tasks := range []int{1, 2, 3, 64} {
		var of step
		began := time.Now()
		sent, last := 0, began.Add(-remote.DefaultBeat)
		for at := began; at.Before(began.Add(long)); at = at.Add(remote.DefaultBeat / time.Duration(tasks)) {
			if of.due(at) {
				sent, last = sent+1, at
			}
			if silent := at.Sub(last); silent > remote.DefaultBeat {
				t.Fatalf("%d tasks heard nothing for %s", tasks, silent)
			}
		}
		if most := int(2 * long / remote.DefaultBeat); sent > most || sent == 0 {
			t.Errorf("%d tasks were sent %d beats in %s, want %d at most", tasks, sent, long, most)
		}
	}
}
