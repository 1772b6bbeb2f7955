// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"preflight/facts"
)

// StateKey returns the key under which a run's torchrun launchers store their shared state.
//
// Source: torch 2.5, torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py; the same
// since 1.9.
func StateKey(runID string) string { return "/torch.rendezvous." + runID }

// ErrNoState is the error for a value that is not the state of a run's launchers.
var ErrNoState = errors.New("not the state of a rendezvous")

// mostPickled limits the size of a state in bytes. The state of ten thousand launchers is far
// smaller.
const mostPickled = 8 << 20

// ReadState decodes the launchers' state, a pickle in base64. now is the time at which the state
// was read from the launchers' store.
//
// Source of its fields: torch 1.9 to 2.15,
// torch/distributed/elastic/rendezvous/dynamic_rendezvous.py, _RendezvousState and _NodeDesc.
func ReadState(value []byte, now time.Time) (*facts.Gathering, error) {
	text, err := base64.StdEncoding.DecodeString(string(value))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoState, err)
	}
	if len(text) > mostPickled {
		return nil, fmt.Errorf("%w: a pickle of %d bytes", ErrNoState, len(text))
	}
	whole, err := unpickle(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoState, err)
	}
	state, ok := whole.(*pickled)
	if !ok {
		return nil, ErrNoState
	}
	round, _ := state.field("round").(int64)
	complete, _ := state.field("complete").(bool)
	closed, _ := state.field("closed").(bool)
	heard := map[facts.Gatherer]time.Time{}
	if beats, ok := state.field("last_heartbeats").(*pickled); ok {
		for i, one := range beats.keys {
			if who, named := launcher(one); named && i < len(beats.values) {
				heard[who] = moment(beats.values[i])
			}
		}
	}
	launchers := func(field string) []facts.Gatherer {
		all := []facts.Gatherer{}
		if of, ok := state.field(field).(*pickled); ok {
			for _, one := range of.keys {
				who, named := launcher(one)
				if !named {
					continue
				}
				if last := heard[who]; !last.IsZero() {
					silent := now.Sub(last).Seconds()
					who.Silent = &silent
				}
				all = append(all, who)
			}
		}
		return all
	}
	gathering := &facts.Gathering{Round: int(round), Complete: complete, Closed: closed, Joined: launchers("participants"), Waiting: launchers("wait_list")}
	if spare := launchers("redundancy_list"); len(spare) > 0 {
		gathering.Spare = spare
	}
	return gathering, nil
}

// launcher decodes the name of a launcher in the state.
func launcher(named any) (who facts.Gatherer, ok bool) {
	desc, ok := named.(*pickled)
	if ok {
		who.Address, _ = desc.field("addr").(string)
		pid, _ := desc.field("pid").(int64)
		who.PID = int(pid)
	}
	return who, ok
}

// moment decodes a Python datetime. It returns the zero time for other values. A datetime has ten
// bytes: two for the year, then the month, day, hour, minute and second, and three for
// microseconds. The highest bit of the month distinguishes the second of two equal hours. torch's
// times are UTC. Later releases append a time zone that says so.
//
// Source: CPython 3.11, Lib/datetime.py, datetime._getstate.
func moment(value any) time.Time {
	made, _ := value.(*pickled)
	if made == nil || len(made.keys) == 0 {
		return time.Time{}
	}
	text, _ := made.keys[0].(string)
	if len(text) != 10 {
		return time.Time{}
	}
	b := []byte(text)
	micro := int(b[7])<<16 | int(b[8])<<8 | int(b[9])
	return time.Date(int(binary.BigEndian.Uint16(b)), time.Month(b[2]&0x7f), int(b[3]), int(b[4]), int(b[5]), int(b[6]), micro*1000, time.UTC)
}

// JoinedKey counts the clients that have announced how many clients there will be. These are the
// ranks of a job, and before them the launchers of torchrun's static backend.
//
// Source: torch 1.9 to 2.15, torch/csrc/distributed/c10d/TCPStore.cpp, waitForWorkers.
const JoinedKey = "init/"

// BarrierKeys returns the keys that count the ranks at the barrier after init_process_group, in the
// order in which to try them. Up to torch 2.0 all ranks use this barrier, and the default group is
// number 1. Since torch 2.1 the default group is number 0, and ranks use the barrier only with
// TORCH_DIST_INIT_BARRIER. If the launcher serves the store, the key contains the attempt.
//
// Source: torch 1.13, 2.4 and 2.15, torch/distributed/distributed_c10d.py, _store_based_barrier;
// torch/distributed/rendezvous.py, _create_c10d_store.
func BarrierKeys(restarts int) (keys []string) {
	const barrier = "default_pg/store_based_barrier_key:"
	for _, prefix := range []string{"/", "//worker/attempt_" + strconv.Itoa(restarts) + "/"} {
		keys = append(keys, prefix+barrier+"0", prefix+barrier+"1")
	}
	return keys
}

// RoleKey returns the key under which a node's launcher describes its ranks. With torchrun's static
// backend, the launcher on the store's node writes no such key. OlderRoleKey returns the key that
// torch 1.13 uses.
//
// Source: torch 1.13, 2.4 and 2.15, torch/distributed/elastic/agent/server/api.py;
// torch/distributed/elastic/rendezvous/static_tcp_rendezvous.py puts the run ID before it.
func RoleKey(runID string, node int) string {
	return "/" + runID + "/torchelastic/role_info/" + strconv.Itoa(node)
}

func OlderRoleKey(runID string, node int) string {
	return "/" + runID + "/torchelastic/role_info" + strconv.Itoa(node)
}
