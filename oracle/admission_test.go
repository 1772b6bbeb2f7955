// SPDX-License-Identifier: Apache-2.0

//go:build oracle

package oracle_test

import (
	"context"
	"net/netip"
	"testing"

	"preflight/drill"
	"preflight/facts"
)

// TestRanksAreMet lets ranks of every torch release connect to the store of a drill, in every
// generation of the protocol that the store supports. The drill must distinguish these ranks from
// preflight's own nodes, which must meet as if no rank had connected. Ranks of torch 2.5 and newer
// must not be harmed: they find their own store after the drill's store has ended.
func TestRanksAreMet(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, r release) {
		for _, g := range []facts.Generation{facts.GenerationLegacy, facts.GenerationValidates, facts.GenerationPings} {
			t.Run("calls "+string(g), func(t *testing.T) {
				port := freePort(t)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				told, ended := make(chan drill.Serving, 1+drill.MaxRanks), make(chan error, 1)
				host := drill.Host{Token: "token", Node: "w1", Port: port, Generation: g, Patience: patience}
				go func() { ended <- host.Serve(ctx, func(s drill.Serving) { told <- s }) }()
				if s := <-told; s.Port != port || s.Ranks != nil {
					t.Fatalf("serving %+v", s)
				}
				rank := r.start(t)
				rank.send(order{"do": "init", "rank": 1, "world": 2, "port": port, "served": true, "seconds": 60})
				met := <-told
				if len(met.Ranks) != 1 || !netip.MustParseAddr(met.Ranks[0]).IsLoopback() {
					t.Errorf("ranks %v", met.Ranks)
				}
				join := drill.Join{Token: "token", Node: "w1", Host: "127.0.0.1", Port: port, World: 1, Generation: g, Deadline: patience, Own: []string{"127.0.0.1"}}
				if seen := join.Run(t.Context()); seen.Failed != "" {
					t.Errorf("our own: %+v", seen)
				}
				leave()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				if r.generation != facts.GenerationPings {
					return
				}
				other := r.start(t)
				if sum, err := ask[int](other, order{"do": "init", "rank": 0, "world": 2, "port": port, "seconds": 60}); err != nil || sum != 1 {
					t.Errorf("the job met %d, %v", sum, err)
				}
				var sum int
				if err := rank.receive(&sum); err != nil || sum != 1 {
					t.Errorf("the rank that came early: %d, %v", sum, err)
				}
			})
		}
	})
}
