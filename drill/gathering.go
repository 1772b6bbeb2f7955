// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"context"
	"net"
	"strconv"
	"time"

	"preflight/drill/c10d"
	"preflight/facts"
)

// gatherTime is for one connection to a store that has just answered.
const gatherTime = time.Second

// mostNodes is how many launchers are asked for by their number, each with a request of its own.
const mostNodes = 1024

// Run is what is known of a job that meets at a store, as torch's keys there have it in their names.
type Run struct {
	ID       string `json:"id,omitempty"`       // torchrun's
	Nodes    int    `json:"nodes,omitempty"`    // 0 where it is not known
	Restarts int    `json:"restarts,omitempty"` // of the ranks, by torchrun
}

// Gather has the store at an endpoint that Identify has found say what the launchers of a run have agreed
// on and how many have come, nil where it has nothing of it. Nothing but VALIDATE, and CHECK and
// GET of keys whose names are known, is sent, by one connection. A store is asked for a value
// only once it has said that the key is there: others hang up, or wait.
func Gather(ctx context.Context, at facts.Endpoint, run Run) (*facts.Gathering, *facts.Roll) {
	_, port, err := net.SplitHostPort(at.Endpoint)
	if err != nil || at.Failed != "" || at.Preflight {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, gatherTime)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(at.Address, port))
	if err != nil {
		return nil, nil
	}
	client := c10d.NewClient(conn, at.Store)
	defer client.Close()
	client.Validate()
	// A call that fails ends the connection, and all after it fail too.
	has := func(key string) bool {
		there, err := client.Check(ctx, key)
		return err == nil && there
	}
	count := func(key string) *int {
		if !has(key) {
			return nil
		}
		value, _ := client.Get(ctx, key)
		n, err := strconv.Atoi(string(value))
		if err != nil {
			return nil
		}
		return &n
	}
	var gathering *facts.Gathering
	if run.ID != "" && has(c10d.StateKey(run.ID)) {
		if value, err := client.Get(ctx, c10d.StateKey(run.ID)); err == nil {
			if gathering, err = c10d.ReadState(value, time.Now()); err == nil {
				gathering.RunID = run.ID
			}
		}
	}
	roll := &facts.Roll{Joined: count(c10d.JoinedKey)}
	for _, key := range c10d.BarrierKeys(run.Restarts) {
		if roll.Barrier = count(key); roll.Barrier != nil {
			break
		}
	}
	if run.ID != "" {
		for number := 1; number < min(run.Nodes, mostNodes); number++ {
			if has(c10d.RoleKey(run.ID, number)) || has(c10d.OlderRoleKey(run.ID, number)) {
				roll.Came = append(roll.Came, number)
			} else {
				roll.Absent = append(roll.Absent, number)
			}
		}
	}
	switch {
	case roll.Came == nil, ctx.Err() != nil: // launchers that do not meet so, or an answer that broke off
		roll.Came, roll.Absent = nil, nil
	default: // that of node 0 serves, and tells nothing before all have joined
		roll.Came = append([]int{0}, roll.Came...)
	}
	if roll.Joined == nil && roll.Barrier == nil && roll.Came == nil {
		return gathering, nil
	}
	return gathering, roll
}
