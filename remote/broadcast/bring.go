// SPDX-License-Identifier: Apache-2.0

package broadcast

import (
	"os"
	"time"

	"preflight/remote"
)

// Bring puts our binary on the nodes of all tasks that lack it. Where the program has others
// as well, which would be left a file that nobody there asks for, those that lack it are
// started once more, without them; and each on its own where there is no other way.
func (p *place) Bring(parcel remote.Parcel) remote.Bringing {
	p.set.mu.Lock()
	if len(p.needs) == 0 {
		p.set.mu.Unlock()
		return remote.NoPorter
	}
	t := p.needs[0]
	if p.needs = p.needs[1:]; p.step != t {
		p.set.mu.Unlock()
		return remote.AsksAnew
	}
	asks := make(chan remote.Bringing, 1)
	p.parcel, p.asks = parcel, asks
	t.waiting.Stop()
	t.waiting = time.AfterFunc(t.set.engine.Patience, func() { t.locked(func() { t.settle(true) }) })
	t.settle(false)
	p.set.mu.Unlock()
	select {
	case became := <-asks:
		return became
	case <-p.closed:
		return remote.AsksAnew
	}
}

// answer says what became of a parcel, if one is asked for. The set is locked.
func (p *place) answer(became remote.Bringing) {
	if p.asks != nil {
		p.asks <- became
		p.asks = nil
	}
}

// settle sees to those who lack our binary, when it is known of every task whether it does, or
// when it is late to wait for that. The set is locked.
func (t *step) settle(late bool) {
	if t.settled != nil || t.over {
		return
	}
	asking := map[string][]*place{} // by where it is to lie
	most := ""                      // of them ask for it there
	for _, p := range t.places {
		switch {
		case p.step != t || p.spoke || p.isClosed():
		case p.asks != nil:
			path := p.parcel.Path
			asking[path] = append(asking[path], p)
			if path != "" && (most == "" || len(asking[path]) > len(asking[most])) {
				most = path
			}
		case !late:
			return
		}
	}
	able := t.set.engine.Bring != nil && most != ""
	for path, places := range asking {
		switch {
		case able && path == most && len(places) == len(t.places):
			t.settled = make(chan struct{})
			t.set.running.Go(func() { t.bring(places) })
			return
		case able && path == most && len(places) > 1:
			for _, p := range places {
				t.dismiss(p)
			}
			t.set.start(places, t.command, false)
		default:
			t.release(places)
		}
	}
}

// release gives each a start of its own.
func (t *step) release(places []*place) {
	for _, p := range places {
		if p.step == t {
			t.dismiss(p)
			p.alone()
		}
	}
}

// bring puts the binary on the nodes of all tasks. What keeps it from that is told by a start
// of its own of each.
func (t *step) bring(to []*place) {
	parcel := to[0].parcel
	file, err := parcel.File()
	if err == nil {
		_, _, err = t.set.engine.Bring(t.name, file, parcel.Path).Run(t.brings)
		os.Remove(file)
	}
	t.locked(func() {
		close(t.settled)
		if err != nil {
			t.release(to)
			return
		}
		for _, p := range to {
			p.answer(remote.Brought)
		}
	})
}
