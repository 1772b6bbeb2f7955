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

// mostNodes is the maximum number of launchers that are looked up by node number, with one request
// each.
const mostNodes = 1024

// Run is what is known about a job that uses a store; torch's keys there contain these values.
type Run struct {
	ID       string `json:"id,omitempty"`       // torchrun's
	Nodes    int    `json:"nodes,omitempty"`    // 0 if unknown
	Restarts int    `json:"restarts,omitempty"` // of the ranks, by torchrun
}

// Gather reads from the store at an endpoint that Identify has found what the launchers of a run
// have agreed on, and how many have come. It returns nil for what the store does not have. It sends
// only VALIDATE, and CHECK and GET of known keys, over one connection. It asks for a value only
// after the store said that the key exists: otherwise the store would close the connection, or
// wait.
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
	// A failed call ends the connection, and all later calls fail too.
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
	case roll.Came == nil, ctx.Err() != nil: // launchers that do not use this backend, or an answer that broke off
		roll.Came, roll.Absent = nil, nil
	default: // node 0's launcher serves the store, and writes nothing before all have joined
		roll.Came = append([]int{0}, roll.Came...)
	}
	if roll.Joined == nil && roll.Barrier == nil && roll.Came == nil {
		return gathering, nil
	}
	return gathering, roll
}
