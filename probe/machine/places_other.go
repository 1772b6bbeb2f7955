// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package machine

import (
	"context"
	"errors"

	"preflight/facts"
)

// LookAtPlaces returns an error on systems other than Linux. All nodes run Linux.
func LookAtPlaces(context.Context, Options, []facts.Place) error {
	return errors.New("preflight looks at Linux machines only")
}
