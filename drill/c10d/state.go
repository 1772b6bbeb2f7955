// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"encoding/base64"
	"errors"
	"fmt"

	"preflight/facts"
	"preflight/pickle"
)

// StateKey is where torchrun's launchers of a run keep what they agree on, and StateUnset what a
// store has there before the first has written.
//
// Source: torch 2.5, torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py; the same
// since 1.9.
func StateKey(runID string) string { return "/torch.rendezvous." + runID }

// StateUnset is "canimadam" in base64, as the backend writes it.
const StateUnset = "Y2FuaW1hZGFt"

// ErrNoState is a value that is not what launchers agree on.
var ErrNoState = errors.New("not the state of a rendezvous")

// mostPickled is far more than the state of ten thousand launchers takes.
const mostPickled = 8 << 20

// ReadState reads what launchers agree on as they have it in their store: a pickle in base64.
//
// Source of its fields: torch 2.5, torch/distributed/elastic/rendezvous/dynamic_rendezvous.py,
// _RendezvousState and _NodeDesc.
func ReadState(value []byte) (*facts.Gathering, error) {
	text, err := base64.StdEncoding.DecodeString(string(value))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoState, err)
	}
	if len(text) > mostPickled {
		return nil, fmt.Errorf("%w: a pickle of %d bytes", ErrNoState, len(text))
	}
	whole, err := pickle.Read(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoState, err)
	}
	state, is := whole.(*pickle.Object)
	if !is {
		return nil, ErrNoState
	}
	round, _ := state.Field("round").(int64)
	complete, _ := state.Field("complete").(bool)
	closed, _ := state.Field("closed").(bool)
	return &facts.Gathering{
		Round: int(round), Complete: complete, Closed: closed,
		Joined: launchers(state.Field("participants")), Waiting: launchers(state.Field("wait_list")),
	}, nil
}

// launchers are those that a set or a mapping of them names.
func launchers(of any) []facts.Gatherer {
	all := []facts.Gatherer{}
	named, _ := of.(*pickle.Object)
	if named == nil {
		return all
	}
	for _, one := range named.Keys {
		desc, is := one.(*pickle.Object)
		if !is {
			continue
		}
		address, _ := desc.Field("addr").(string)
		pid, _ := desc.Field("pid").(int64)
		all = append(all, facts.Gatherer{Address: address, PID: int(pid)})
	}
	return all
}
