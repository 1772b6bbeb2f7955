// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"context"
	"net"
	"time"

	"preflight/drill/c10d"
	"preflight/facts"
	"preflight/hostsys"
)

// gatherTime is for one connection to a store that has just answered.
const gatherTime = time.Second

// Gathering is what the launchers of a run have agreed on in the store at an endpoint that
// Identify has found: nil where it cannot be read. Nothing but VALIDATE, CHECK and GET of that
// one key is sent. Stores of the oldest generation are not asked, which answer nobody meanwhile.
func Gathering(ctx context.Context, at facts.Endpoint, runID string) *facts.Gathering {
	_, port, err := net.SplitHostPort(at.Endpoint)
	if err != nil || at.Failed != "" || at.Preflight || at.Store == facts.GenerationLegacy {
		return nil
	}
	ctx, cancel := hostsys.WithTimeout(ctx, gatherTime)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(at.Address, port))
	if err != nil {
		return nil
	}
	client := c10d.NewClient(conn, at.Store)
	defer client.Close()
	client.Validate()
	if there, err := client.Check(ctx, c10d.StateKey(runID)); err != nil || !there {
		return nil
	}
	value, err := client.Get(ctx, c10d.StateKey(runID))
	if err != nil {
		return nil
	}
	gathering, err := c10d.ReadState(value, time.Now())
	if err != nil {
		return nil
	}
	gathering.RunID = runID
	return gathering
}
