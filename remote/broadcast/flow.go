// SPDX-License-Identifier: Apache-2.0

package broadcast

import (
	"errors"
	"io"
	"sync"
)

const (
	// maxHeld is what may lie unread of a node: more than package remote takes of one at all.
	maxHeld = 9 << 20
	// maxEarly is how many lines are kept that nobody has asked for yet.
	maxEarly = 100
)

var errHeld = errors.New("too much lies unread")

// flow is a stream whose writer never waits, until there is too much.
type flow struct {
	mu    sync.Mutex
	came  sync.Cond
	held  []byte
	ended bool
}

func newFlow() *flow {
	f := &flow{}
	f.came.L = &f.mu
	return f
}

func (f *flow) put(text []byte) { _, _ = f.Write(text) }

// Write is by a start of its own, which ends where there is too much; of a program it is dropped.
func (f *flow) Write(text []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.held)+len(text) > maxHeld || f.ended {
		return 0, errHeld
	}
	f.held = append(f.held, text...)
	f.came.Signal()
	return len(text), nil
}

func (f *flow) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	f.came.Broadcast()
}

func (f *flow) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.held) == 0 {
		if f.ended {
			return 0, io.EOF
		}
		f.came.Wait()
	}
	n := copy(p, f.held)
	f.held = f.held[n:]
	return n, nil
}
