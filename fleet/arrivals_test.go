// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"preflight/remote"
)

// coming is a node that comes, or is lost, so long after the run's beginning.
type coming struct {
	after time.Duration
	lost  bool
}

// TestEarly: the drills wait for nobody who is late by the measure of those who have come, and
// who is alone waits.
func TestEarly(t *testing.T) {
	const most = 15 * time.Second
	after := func(seconds ...float64) (all []coming) {
		for _, s := range seconds {
			all = append(all, coming{after: time.Duration(s * float64(time.Second))})
		}
		return all
	}
	for _, c := range []struct {
		name  string
		nodes []coming
		took  func(coming) time.Duration // nil: from the beginning on
		early int
	}{
		{"all at once", after(0.2, 0.2, 0.3, 0.4), nil, 4},
		{"one a little later", after(0.2, 0.2, 1.1), nil, 3},
		{"one late", after(0.2, 0.2, 1.3), nil, 2},
		{"all slow, and one a little slower", after(8, 9, 16), nil, 3},
		{"all slow, and one much slower", after(8, 9, 18), nil, 2},
		{"nobody is waited for without end", after(40, 40, 56), nil, 2},
		{"the second is", after(0.2, 50), nil, 2},
		{"who is lost is not one to try anything with", append(after(0.2, 50), coming{time.Second, true}), nil, 3},
		{"but is one that is not waited for", append(after(0.2, 0.2), coming{900 * time.Millisecond, true}), nil, 3},
		{"one after the other", after(2, 4, 6, 8), func(coming) time.Duration { return 2100 * time.Millisecond }, 4},
		{"quick ones, one after the other", after(0.5, 1, 1.5, 2), func(coming) time.Duration { return time.Second / 2 }, 4},
		{"nobody", nil, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slices.SortStableFunc(c.nodes, func(a, b coming) int { return int(a.after - b.after) })
				comes := &arrivals{each: make(chan arrival, len(c.nodes)), most: most}
				go func() {
					began := time.Now()
					for i, node := range c.nodes {
						time.Sleep(node.after - time.Since(began))
						a := arrival{i: i, at: time.Now(), took: node.after}
						if c.took != nil {
							a.took = c.took(node)
						}
						if !node.lost {
							a.agent = &remote.Agent{}
						}
						comes.each <- a
					}
					close(comes.each)
				}()
				early := comes.early()
				if len(early) != c.early || comes.over != (c.early == len(c.nodes)) {
					t.Errorf("%d came early, and that was all: %v, want %d of %d", len(early), comes.over, c.early, len(c.nodes))
				}
				all := early
				if !comes.over {
					all = append(all, comes.rest()...)
				}
				var places []int
				for _, a := range all {
					places = append(places, a.i)
				}
				if len(all) != len(c.nodes) || !slices.IsSorted(places) || !comes.over {
					t.Errorf("all that came: %v of %d, over %v", places, len(c.nodes), comes.over)
				}
			})
		})
	}
}
