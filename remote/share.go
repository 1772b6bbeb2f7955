// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"cmp"
	"context"
	"io"
	"sync"
	"time"
)

// Nodes that share a home lack our agent all at once, and one copy serves them all: the
// first to ask gets it, and the others look again when it has arrived.
//
// What tells that a directory is shared are the files that deliveries to it begin with: each
// bears its delivery's tag, and every node says whose it saw beside its own. It makes its own
// before it looks, so of two at least one sees the other. Inode numbers would not do, which
// cloned disks have alike.

const (
	// stillness is for how long nothing of a copy may be seen to move for others to wait on:
	// so much does a node that freezes while it is sent the copy cost those that share its
	// home.
	stillness = 3 * time.Second
	// longestWait is how long a node waits at most, which deliver.sh's own watch must allow.
	longestWait = 8 * time.Second
)

// homes are the directories that the nodes of a run deliver to, as far as they are known to
// be one. The zero value is ready.
type homes struct {
	mu sync.Mutex
	of map[string]*home // by the tags of the deliveries under way

	stillness, longestWait time.Duration // 0 = the constants
}

// home is a directory. Those that turn out to be one are joined.
type home struct {
	same    *home            // the one it was joined to
	copies  map[string]*sent // by hash
	arrived map[string]bool
}

// sent is one copy on its way.
type sent struct {
	homes *homes
	to    *home
	hash  string
	ended chan struct{}
	moved time.Time // under homes.mu
}

func (h *home) root() *home {
	for h.same != nil {
		h = h.same
	}
	return h
}

// enter makes a delivery known, until the returned function is called.
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

// move has a delivery try another directory than before.
func (s *homes) move(tag string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[tag] = newHome()
}

// meet joins a delivery's directory with those of the deliveries that were seen in it.
func (s *homes) meet(tag string, seen []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.of[tag].root()
	for _, other := range seen {
		entered := s.of[other] // nil for what another run, or anybody, has left there
		if entered == nil || entered.root() == own {
			continue
		}
		// The newcomer joins what is there, so that no chain gets long.
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

// turn waits until a copy has arrived in the delivery's directory, and returns nil: the
// node is to look again. Otherwise it is this node's turn to be sent one, and who sends it
// says when it moved and how it ended.
func (s *homes) turn(ctx context.Context, tag, hash string) *sent {
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

// next is the copy to send now, or the one to wait for, or nil where one has arrived.
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

// end says whether the copy lies there now.
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

// watched is the content of a copy, whose every piece that is taken is one that moved.
type watched struct {
	io.Reader
	of *sent
}

func (w watched) Read(p []byte) (int, error) {
	if w.of != nil { // nobody waits for what is sent to a node that has looked again in vain
		w.of.homes.mu.Lock()
		w.of.moved = time.Now()
		w.of.homes.mu.Unlock()
	}
	return w.Reader.Read(p)
}
