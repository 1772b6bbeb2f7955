// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strconv"
	"strings"
)

// tally keeps of each message who said it first and how often, so that a log of
// any length takes the same memory.
type tally struct {
	sources     []string
	many        bool // several logs: their names tell nodes apart
	lines       int  // of all sources together
	position    int  // of the line that is looked at, over all sources
	unread      []Unread
	empty       []string // sources
	nameless    int      // messages that were counted, and not who said them
	occurrences []*occurrence
	byKey       map[key]*occurrence
	bySignature map[string][]*occurrence        // by the signature's ID
	values      map[*Signature]map[string]event // of the group that must be one: who said each first
	valued      map[key]bool                    // who has logged such a value already
	progress    map[int]*progress               // by source
	network     networks
	homes       homes
	meetings    []meeting // in the order in which ranks gave them up
	calls       map[callKey]call
	groups      bool // some rank spoke of a group of ranks that is not the default one
	highest     int  // rank that spoke
}

type occurrence struct {
	event // the earliest
	count int
	last  int // position of the latest
}

type key struct {
	signature *Signature
	exception string
	file      int
	speaker
}

const (
	// mostOccurrences bounds what a hostile log can make us remember.
	mostOccurrences = 20_000
	mostValues      = 64
	mostRanks       = 1 << 20
)

func newTally(sources int) *tally {
	return &tally{
		many: sources > 1, byKey: map[key]*occurrence{}, bySignature: map[string][]*occurrence{},
		values: map[*Signature]map[string]event{}, valued: map[key]bool{}, progress: map[int]*progress{}, calls: map[callKey]call{}, homes: newHomes(), network: newNetworks(),
	}
}

// add notes a message and returns all that is known of it from its speaker.
func (t *tally) add(e event) *occurrence {
	derive(e.values)
	if s := e.signature; s != nil && s.Differs != "" {
		t.value(e)
	}
	if e.signature != nil && e.signature.Apart != nil {
		t.meets(e)
	}
	if group := e.values["group"]; group != "" && group != "0" {
		t.groups = true
	}
	if rank, err := strconv.Atoi(e.rank); err == nil && rank < mostRanks {
		t.highest = max(t.highest, rank)
	}
	if e.signature != nil && e.signature.Kind == Success {
		if t.progress[e.file] == nil {
			t.progress[e.file] = &progress{}
		}
		t.progress[e.file].add(e.position)
	}
	k := key{e.signature, e.exception, e.file, e.speaker}
	known := t.byKey[k]
	if known == nil && len(t.occurrences) >= mostOccurrences {
		k.speaker, k.exception = speaker{}, ""
		known = t.byKey[k]
		t.nameless++
	}
	if known == nil {
		e = e.kept()
		if k.speaker != (speaker{}) || k.exception != "" {
			k.speaker, k.exception = e.speaker, e.exception
		}
		known = &occurrence{event: e}
		t.byKey[k] = known
		t.occurrences = append(t.occurrences, known)
		if e.signature != nil {
			t.bySignature[e.signature.ID] = append(t.bySignature[e.signature.ID], known)
		}
	}
	known.count++
	known.last = e.position
	if e.at.known() && known.at.known() && e.at.earlier(known.at) {
		known.event = e.kept()
	}
	return known
}

// kept is an event without the lines that its words are parts of: one word would keep all of
// a long line in memory.
func (e event) kept() event {
	e.text, e.exception = own(e.text), own(e.exception)
	e.speaker = speaker{node: own(e.node), rank: own(e.rank), local: own(e.local)}
	values := make(map[string]string, len(e.values))
	for name, value := range e.values {
		values[name] = own(value)
	}
	e.values = values
	return e
}

func own(text string) string {
	return strings.Clone(strings.ToValidUTF8(text[:min(len(text), widest)], ""))
}

// value notes what a speaker tells that all must tell alike. Its first word counts:
// a log may hold several runs, one after the other.
func (t *tally) value(e event) {
	s := e.signature
	who := key{s, "", e.file, e.speaker}
	if t.valued[who] || len(t.valued) >= mostOccurrences {
		return
	}
	e = e.kept()
	who.speaker = e.speaker
	t.valued[who] = true
	if t.values[s] == nil {
		t.values[s] = map[string]event{}
	}
	if _, known := t.values[s][e.values[s.Differs]]; !known && len(t.values[s]) < mostValues {
		t.values[s][e.values[s.Differs]] = e
	}
}

func (t *tally) has(ids []string) bool {
	for _, id := range ids {
		if len(t.bySignature[id]) > 0 {
			return true
		}
	}
	return false
}

// lasting is how many signs of progress show that the program itself goes on, and not
// some other rank for a moment.
const lasting = 20

// progress is where a log last showed that all goes well.
type progress struct {
	last [lasting]int // positions, round and round
	n    int
}

func (p *progress) add(position int) {
	p.last[p.n%lasting] = position
	p.n++
}

// after is whether there was any progress after a position.
func (p *progress) after(position int) bool {
	return p != nil && p.n > 0 && p.last[(p.n-1)%lasting] > position
}

// lastedAfter is whether there was so much of it that it lasted.
func (p *progress) lastedAfter(position int) bool {
	return p != nil && p.n >= lasting && p.last[p.n%lasting] > position
}
