// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"context"
	"errors"
	"time"

	"preflight/internal/hostsys"
)

// Turn is one of a whole run, that a node has for it.
type Turn struct {
	Of string `json:"of"`
	// Patience is how long to wait for another preflight that has it.
	Patience time.Duration `json:"patience"`
}

// Had is what came of wanting a turn.
type Had struct {
	Taken *hostsys.Taken `json:"taken,omitempty"` // who still has it
}

// Hold has the turn until ctx ends. ready is called when it has, or another preflight did not
// end it in time.
func (t Turn) Hold(ctx context.Context, ready func(Had) error) error {
	waiting, cancel := context.WithTimeout(ctx, t.Patience)
	defer cancel()
	turn, _, err := hostsys.TakeTurn(waiting, t.Of)
	if taken := (*hostsys.Taken)(nil); errors.As(err, &taken) {
		return ready(Had{Taken: taken})
	}
	defer turn.End()
	if err := ready(Had{}); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}
