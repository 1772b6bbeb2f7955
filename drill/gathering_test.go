// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/drill/c10d"
	"preflight/facts"
)

// TestRoll checks that the number of joined ranks is read from torch's keys in a store of any
// generation. No other key may be read.
func TestRoll(t *testing.T) {
	number := func(n int) *int { return &n }
	for name, c := range map[string]struct {
		keys map[string]string
		run  Run
		want *facts.Roll
	}{
		"ranks have joined": {map[string]string{"init/": "6", "/default_pg/0//cuda//0": "x"}, Run{}, &facts.Roll{Joined: number(6)}},
		"the barrier of torch 2.0": {map[string]string{"init/": "8", "/default_pg/store_based_barrier_key:1": "5"}, Run{},
			&facts.Roll{Joined: number(8), Barrier: number(5)}},
		"that of 2.1, whose number 1 is another group": {map[string]string{"/default_pg/store_based_barrier_key:0": "5", "/default_pg/store_based_barrier_key:1": "2"}, Run{},
			&facts.Roll{Barrier: number(5)}},
		"the barrier of the second attempt": {map[string]string{"//worker/attempt_0/default_pg/store_based_barrier_key:1": "8", "//worker/attempt_1/default_pg/store_based_barrier_key:1": "3"},
			Run{ID: "none", Restarts: 1}, &facts.Roll{Barrier: number(3)}},
		"launchers": {map[string]string{"/none/torchelastic/role_info/2": "{}", "init/": "2"}, Run{ID: "none", Nodes: 4},
			&facts.Roll{Joined: number(2), Came: []int{0, 2}, Absent: []int{1, 3}}},
		"launchers of torch 1.13":        {map[string]string{"/run7/torchelastic/role_info1": "{}"}, Run{ID: "run7", Nodes: 2}, &facts.Roll{Came: []int{0, 1}}},
		"launchers of another run":       {map[string]string{"/run8/torchelastic/role_info/1": "{}"}, Run{ID: "run7", Nodes: 2}, nil},
		"what is no number":              {map[string]string{"init/": "many"}, Run{}, nil},
		"a store without any such key":   {map[string]string{"a": "1"}, Run{ID: "run7", Nodes: 4}, nil},
		"an empty state and no launcher": {map[string]string{c10d.StateKey("run7"): "Y2FuaW1hZGFt"}, Run{ID: "run7", Nodes: 4}, nil},
	} {
		for _, g := range generations {
			t.Run(fmt.Sprintf("%s, %s", name, g), func(t *testing.T) {
				t.Parallel()
				server := c10d.NewServer(g)
				for key, value := range c.keys {
					server.Set(key, []byte(value))
				}
				seen := facts.Endpoint{Endpoint: at(serveForeign(t, server)), Address: "127.0.0.1", Store: g}
				gathering, got := Gather(t.Context(), seen, c.run)
				if diff := cmp.Diff(c.want, got); diff != "" || gathering != nil {
					t.Errorf("%+v (-want +got)\n%s", gathering, diff)
				}
				if after := Identify(t.Context(), seen.Endpoint, 4*time.Second); after.Keys != int64(len(c.keys)) {
					t.Errorf("%d keys in the store, want %d", after.Keys, len(c.keys))
				}
			})
		}
	}
}
