// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"strconv"
	"sync"
)

// store is the keys and values, and what is waited for. Values are never changed in place, so that
// one that was handed out stays as it was.
type store struct {
	mu      sync.Mutex
	values  map[string][]byte
	awaited map[string]chan struct{} // by key that is missing; closed when the key is set
}

func newStore() *store {
	return &store{values: map[string][]byte{}, awaited: map[string]chan struct{}{}}
}

func (s *store) set(key string, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(key, value)
}

// put stores a value and wakes those who wait for its key.
func (s *store) put(key string, value []byte) {
	s.values[key] = value
	if s.awaited[key] != nil {
		close(s.awaited[key])
		delete(s.awaited, key)
	}
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
	s.put(key, strconv.AppendInt(nil, sum, 10))
	return sum, nil
}

func (s *store) count() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.values))
}

// await returns a channel that is closed as soon as the key is there.
func (s *store) await(key string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	ready := s.awaited[key]
	if ready == nil {
		ready = make(chan struct{})
		s.awaited[key] = ready
	}
	if value, found := s.values[key]; found {
		s.put(key, value)
	}
	return ready
}
