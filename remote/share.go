// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"cmp"
	"context"
	"io"
	"sync"
	"time"
)

// Nodes that share a home directory all lack the agent at the same time, and one copy serves them
// all. The first node to ask gets the copy. The others look again when the copy has arrived.
//
// Deliveries recognise a shared directory by the files with which they begin. Each file has its
// delivery's tag in its name, and every node reports which other tags it saw. A node creates its
// own file before it looks for others, so that of two nodes at least one sees the other's file.
// Inode numbers would not identify a directory, because cloned disks have the same inode numbers.

const (
	// stillness is how long a copy may make no progress before other nodes stop waiting for it. A
	// node that freezes can delay the nodes that share its home directory by this time.
	stillness = 3 * time.Second
	// longestWait is the maximum time that a node waits. deliver.sh's own time limit must be
	// longer.
	longestWait = 8 * time.Second
)

// homes holds the directories to which the nodes of a run deliver. Entries are merged if they are
// known to be the same directory. The zero value is ready to use.
type homes struct {
	mu sync.Mutex
	of map[string]*home // the home of each delivery in progress, by the delivery's tag

	stillness, longestWait time.Duration // 0 means the constants of these names
}

// home is one directory. Homes that turn out to be the same directory are joined.
type home struct {
	same    *home            // the home that this one was joined to
	copies  map[string]*sent // copies that are being sent, by the hash of the binary
	arrived map[string]bool
}

// sent is one copy that is being sent.
type sent struct {
	homes *homes
	to    *home
	hash  string
	ended chan struct{}
	moved time.Time // guarded by homes.mu
}

func (h *home) root() *home {
	for h.same != nil {
		h = h.same
	}
	return h
}

// enter registers a delivery. It stays registered until the returned function is called.
func (s *homes) enter(tag string) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[string]*home{}
	}
	s.of[tag] = newHome()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.of, tag)
	}
}

func newHome() *home { return &home{copies: map[string]*sent{}, arrived: map[string]bool{}} }

// move registers that a delivery tries another directory.
func (s *homes) move(tag string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[tag] = newHome()
}

// meet joins a delivery's directory with the directories of the deliveries that it has seen in it.
func (s *homes) meet(tag string, seen []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.of[tag].root()
	for _, other := range seen {
		entered := s.of[other] // nil for files of another run or of strangers
		if entered == nil || entered.root() == own {
			continue
		}
		// The newcomer joins the older home, so that chains stay short.
		there := entered.root()
		own.same = there
		for hash, one := range own.copies {
			if there.copies[hash] == nil {
				there.copies[hash] = one
			}
		}
		for hash := range own.arrived {
			there.arrived[hash] = true
		}
		own = there
	}
}

// awaitCopy waits until a copy has arrived in the delivery's directory. It then returns nil, and
// the node must look again. If there is no copy to wait for, it returns the copy to send to this
// node. The caller must then report the copy's progress and its end.
func (s *homes) awaitCopy(ctx context.Context, tag, hash string) *sent {
	patience := cmp.Or(s.longestWait, longestWait)
	if deadline, limited := ctx.Deadline(); limited {
		patience = min(patience, time.Until(deadline)/2)
	}
	over := time.NewTimer(patience)
	defer over.Stop()
	waits := true
	for {
		one, ours := s.next(tag, hash, waits)
		if one == nil || ours {
			return one
		}
		still := time.NewTimer(cmp.Or(s.stillness, stillness))
		select {
		case <-one.ended:
		case <-still.C:
		case <-over.C:
			waits = false
		case <-ctx.Done():
			waits = false
		}
		still.Stop()
	}
}

// next returns the copy to send now (ours) or to wait for, or nil if a copy has arrived.
func (s *homes) next(tag, hash string, waits bool) (one *sent, ours bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.of[tag].root()
	if h.arrived[hash] {
		return nil, false
	}
	if one := h.copies[hash]; one != nil && waits && time.Since(one.moved) < cmp.Or(s.stillness, stillness) {
		return one, false
	}
	one = &sent{homes: s, to: h, hash: hash, ended: make(chan struct{}), moved: time.Now()}
	h.copies[hash] = one
	return one, true
}

// end records that the copy has ended, and whether it is now installed.
func (o *sent) end(arrived bool) {
	o.homes.mu.Lock()
	defer o.homes.mu.Unlock()
	h := o.to.root()
	if arrived {
		h.arrived[o.hash] = true
	}
	if h.copies[o.hash] == o {
		delete(h.copies, o.hash)
	}
	close(o.ended)
}

// watched is the content of a copy. Every read counts as progress of the copy.
type watched struct {
	io.Reader
	of *sent
}

func (w watched) Read(p []byte) (int, error) {
	if w.of != nil { // no other node waits for a copy to a node that looked again and found none
		w.of.homes.mu.Lock()
		w.of.moved = time.Now()
		w.of.homes.mu.Unlock()
	}
	return w.Reader.Read(p)
}
