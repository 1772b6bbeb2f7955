// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"context"
	"errors"
	"time"

	"preflight/internal/hostsys"
)

// Turn is the right to do something that only one run may do at a time. A node holds its turn for
// the whole run.
type Turn struct {
	Of string `json:"of"`
	// Patience is how long to wait for another preflight that holds the turn.
	Patience time.Duration `json:"patience"`
}

// Had is the result of asking for a turn.
type Had struct {
	Taken *hostsys.Taken `json:"taken,omitempty"` // the process that still holds the turn
}

// Hold holds the turn until ctx ends. It calls ready when it has the turn, or when another
// preflight did not release the turn in time.
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
