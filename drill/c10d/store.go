// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"bytes"
	"strconv"
	"sync"
)

// maxStore is how many bytes of keys and values a store holds, those of requests
// that are still arriving included. A rendezvous of 10,000 nodes needs 2 MiB.
const maxStore = 64 << 20

// store is the keys and values, and those who wait for a key. Values are never
// changed in place, so that one that was handed out stays as it was.
type store struct {
	mu      sync.Mutex
	values  map[string][]byte
	waiting map[string]map[*waiter]bool // by key
	held    int                         // bytes
}

// waiter waits for keys that are missing. Once a key was there it is no longer
// waited for, though it be deleted again.
type waiter struct {
	missing map[string]bool
	ready   chan struct{} // closed when nothing is missing any more
}

func newStore() *store {
	return &store{values: map[string][]byte{}, waiting: map[string]map[*waiter]bool{}}
}

// hold makes room for bytes, release gives it back.
func (s *store) hold(bytes int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holdLocked(bytes)
}

func (s *store) holdLocked(bytes int) error {
	if s.held+bytes > maxStore {
		return errStoreFull
	}
	s.held += bytes
	return nil
}

func (s *store) release(bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held -= bytes
}

// put stores a value and wakes those who waited for it.
func (s *store) put(key string, value []byte) error {
	old, existed := s.values[key]
	more := len(value) - len(old)
	if !existed {
		more += len(key) + keyCost
	}
	if err := s.holdLocked(more); err != nil {
		return err
	}
	s.values[key] = value
	for w := range s.waiting[key] {
		delete(w.missing, key)
		if len(w.missing) == 0 {
			close(w.ready)
		}
	}
	delete(s.waiting, key)
	return nil
}

func (s *store) set(keys []string, values [][]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, key := range keys {
		if err := s.put(key, values[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *store) append(key string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.values[key]
	if len(old)+len(value) > maxValue {
		return errTooLong
	}
	return s.put(key, append(old[:len(old):len(old)], value...))
}

func (s *store) get(key string) (value []byte, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, found = s.values[key]
	return value, found
}

// add counts: the value is the number in decimal digits.
func (s *store) add(key string, delta int64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := delta
	if old, found := s.values[key]; found {
		number, err := strconv.ParseInt(string(old), 10, 64)
		if err != nil {
			return 0, errNoNumber
		}
		sum += number
	}
	return sum, s.put(key, strconv.AppendInt(nil, sum, 10))
}

// compareSet stores desired where the value is expected, or where there is none
// and none is expected. It returns the value then, and expected where there is
// none.
func (s *store) compareSet(key string, expected, desired []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, found := s.values[key]
	switch {
	case !found && len(expected) > 0:
		return expected, nil
	case found && !bytes.Equal(old, expected):
		return old, nil
	}
	return desired, s.put(key, desired)
}

func (s *store) delete(key string) (deleted int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, found := s.values[key]
	if !found {
		return 0
	}
	s.held -= len(key) + keyCost + len(value)
	delete(s.values, key)
	return 1
}

func (s *store) count() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.values))
}

// wait begins to wait for the keys that are missing. Whoever stops before ready
// is closed must say so by forget.
func (s *store) wait(keys []string) *waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &waiter{missing: map[string]bool{}, ready: make(chan struct{})}
	for _, key := range keys {
		if _, found := s.values[key]; found {
			continue
		}
		w.missing[key] = true
		if s.waiting[key] == nil {
			s.waiting[key] = map[*waiter]bool{}
		}
		s.waiting[key][w] = true
	}
	if len(w.missing) == 0 {
		close(w.ready)
	}
	return w
}

func (s *store) forget(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range w.missing {
		delete(s.waiting[key], w)
		if len(s.waiting[key]) == 0 {
			delete(s.waiting, key)
		}
	}
}

func (s *store) allThere(keys []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		if _, found := s.values[key]; !found {
			return false
		}
	}
	return true
}

// JoinedKey counts the clients that have told how many there will be: the ranks of a job, and before them
// the launchers of torchrun's static backend.
//
// Source: torch 1.9 to 2.15, torch/csrc/distributed/c10d/TCPStore.cpp, waitForWorkers.
const JoinedKey = "init/"

// BarrierKeys count the ranks at the barrier behind init_process_group, in the order in which they are to be
// looked for. Up to torch 2.0 all come there, and the default group is number 1; since 2.1, where it is number 0,
// with TORCH_DIST_INIT_BARRIER alone. Where the launcher serves the store, the key has the attempt.
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

// RoleKey is where the launcher of a node tells of its ranks, by torchrun's static backend that of another
// node than itself; OlderRoleKey is where those of torch 1.13 do.
//
// Source: torch 1.13, 2.4 and 2.15, torch/distributed/elastic/agent/server/api.py;
// torch/distributed/elastic/rendezvous/static_tcp_rendezvous.py has the run ID before it.
func RoleKey(runID string, node int) string {
	return "/" + runID + "/torchelastic/role_info/" + strconv.Itoa(node)
}

func OlderRoleKey(runID string, node int) string {
	return "/" + runID + "/torchelastic/role_info" + strconv.Itoa(node)
}
