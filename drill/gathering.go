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

// gatherTime is the time limit for one connection to a store that has just answered.
const gatherTime = time.Second

// mostNodes is the maximum number of launchers that Gather looks up by node number, with one
// request for each.
const mostNodes = 1024

// Run holds what is known about a job that uses a store. torch's keys in the store contain these
// values.
type Run struct {
	ID       string `json:"id,omitempty"`       // torchrun's run ID
	Nodes    int    `json:"nodes,omitempty"`    // 0 if unknown
	Restarts int    `json:"restarts,omitempty"` // how often torchrun has restarted the ranks
}

// Gather reads a store at an endpoint that Identify has found. It returns what the launchers of a
// run have agreed on, and how many have come. A result is nil if the store does not have it.
//
// Over one connection, Gather sends only VALIDATE, and CHECK and GET of known keys. It asks for a
// value only after the store has said that the key exists. Without the key, the store would close
// the connection, or wait.
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
	// A failed request ends the connection, so all requests after it fail too.
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
	case roll.Came == nil, ctx.Err() != nil: // the launchers do not use this backend, or the connection broke during an answer
		roll.Came, roll.Absent = nil, nil
	default: // node 0's launcher serves the store, and writes nothing before all have joined
		roll.Came = append([]int{0}, roll.Came...)
	}
	if roll.Joined == nil && roll.Barrier == nil && roll.Came == nil {
		return gathering, nil
	}
	return gathering, roll
}
