// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package jobs

import (
	"errors"

	"preflight/probe/machine"
)

var readCalls []string

func flows(machine.Options) (map[string]*flow, error) { return nil, errors.ErrUnsupported }
