// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

const (
	// wrapped is over how many lines a message may have been broken by a terminal or
	// a form, each of them behind its own prefix.
	wrapped = 4
	// mostVain is how often a line that only could be the beginning of a message is
	// held together with the next ones.
	mostVain = 1000
	// mostTimes is how often one message is looked at closely in one log; after that
	// it is only counted.
	mostTimes = 10_000
	// looked is how far back the time of a line without a stamp is looked for.
	looked = remembered - 1
)

// event is one message that a signature knows.
type event struct {
	signature *Signature
	exception string            // the message where no signature knows what it means: a program's own exception, an alarm
	values    map[string]string // by the groups of the pattern
	told      *told             // what an exception goes on to say; nil for other messages
	speaker
	at       stamp
	file     int // index of the source
	line     int
	position int // counts over all sources
	text     string
	digest   uint64 // of the line
}

type matcher struct {
	catalogue  *Catalogue
	file       int
	node       string // of the whole file; "" where lines must say it themselves
	recent     recent
	clock      stamp            // the last one that was asked for
	asked      int              // how many lines had been read by then
	vain       map[*pattern]int // how often it could have been and was not
	repeats    map[*Signature]repeat
	same       map[uint64]*occurrence // by the digest of a line
	speakers   map[saying]bool        // who was looked at, of messages that are only counted
	open       []half
	own        []event // exceptions and alarms that may turn out to be the beginning of a message
	tracebacks tracebacks
	telling    []*told
	seen       *tally
}

func (c *Catalogue) matcher(file int, seen *tally) *matcher {
	m := &matcher{catalogue: c, file: file, seen: seen, vain: map[*pattern]int{}, repeats: map[*Signature]repeat{}, same: map[uint64]*occurrence{}, speakers: map[saying]bool{}}
	if seen.many {
		m.node = nodeOfFile(seen.sources[file])
	}
	return m
}

type repeat struct {
	last  *occurrence
	times int
}

// half is a message whose beginning is there and which may go on in the next line.
type half struct {
	pattern *pattern
	text    string
	who     speaker
	number  int // of its first line
	lines   int
}

// saying is a message and the first word of its line, which mostly tells the node or rank.
type saying struct {
	*Signature
	word string
}

// mostSpeakers is how many more lines are looked at closely for their first word.
const mostSpeakers = 4096

// take looks at the next line of the log.
func (m *matcher) take(l scanned) {
	m.seen.position++
	m.recent.add(l.line)
	m.seen.network.take(m.node, l.text)
	m.listen(l.line)
	exception := m.tracebacks.take(&m.recent, l.text)
	m.straddle(l.broken)
	m.settle(l.text)
	if len(l.candidates) == 0 && len(m.open) == 0 && exception == "" {
		return
	}
	switch p := l.first; {
	case p != nil && p.silent() && !p.beside(l.candidates): // a log is long because something goes well and says so a million times
		m.open = m.open[:0]
		m.seen.add(event{signature: p.Signature, file: m.file, line: l.number, position: m.seen.position})
		return
	case p != nil && m.again(p.Signature, l):
		m.open = m.open[:0]
		return
	case (p == nil || p.Kind == Alarm && m.tracebacks.frame(l.text)) && len(m.open) == 0 && exception == "" && m.allVain(l.candidates):
		return
	}
	message, who := peel(string(l.text))
	if tableEnd.MatchString(message) {
		who = m.recent.inTable(who)
		l.digest = 0 // in containers the same process IDs are on all nodes
	}
	if m.goesOn(message) {
		return
	}
	var goesOn *told
	if exception != "" {
		goesOn = m.tells(l.line)
	}
	known := false
	for _, p := range l.said() {
		if known && p.Kind != Alarm {
			continue
		}
		var at int
		var values map[string]string
		// An alarm that was seen tells nothing more, and is shown whole.
		if p != l.first || p.Kind != Alarm || len(message) > widest {
			var ok bool
			if at, _, values, ok = p.match(message); !ok {
				continue
			}
		}
		e := event{signature: p.Signature, values: values, told: goesOn, speaker: who, line: l.number, text: evidence(message, at), digest: l.digest}
		if p.Kind != Alarm {
			m.open = m.open[:0]
			m.found(m.place(e))
			if known = p.beside(l.candidates); known {
				continue
			}
			return
		}
		if e.exception = e.text; exception == "" && !m.tracebacks.has(l.text, m.place(e)) {
			m.own = append(m.own, m.place(e))
		}
		break
	}
	if exception != "" {
		m.own = append(m.own, m.place(event{exception: exception, told: goesOn, speaker: who, line: l.number, text: evidence(message, 0)}))
	}
	for _, p := range l.candidates {
		if m.vain[p]++; m.vain[p] < mostVain && p.Kind != Alarm {
			m.open = append(m.open, half{p, message, who, l.number, 1})
		}
	}
}

// undecided is for how many lines it is open whether an exception led to another.
const undecided = 3

// settle reports exceptions that no signature knows, once no message that began with
// one can go on and no other exception has come of it.
func (m *matcher) settle(text []byte) {
	if len(m.own) > 0 && chains(text) {
		_, who := peel(string(text))
		m.own = slices.DeleteFunc(m.own, func(e event) bool { return e.node == cmp.Or(who.node, m.node) && e.rank == who.rank })
	}
	m.own = slices.DeleteFunc(m.own, func(e event) bool {
		open := m.seen.position-e.position < undecided ||
			slices.ContainsFunc(m.open, func(h half) bool { return h.number == e.line })
		if !open {
			m.found(e)
		}
		return !open
	})
}

// end reports what is still open at the end of a log, a traceback without its exception included.
func (m *matcher) end() {
	for _, e := range append(m.own, m.tracebacks.cut()...) {
		m.found(e)
	}
}

// beside is whether what gives others a meaning may stand in one line with an alarm.
func (p *pattern) beside(candidates []*pattern) bool {
	return p.Kind == Context && candidates[len(candidates)-1].Kind == Alarm
}

// allVain is whether none of the candidates has ever been there.
func (m *matcher) allVain(candidates []*pattern) bool {
	return !slices.ContainsFunc(candidates, func(p *pattern) bool { return m.vain[p] < mostVain })
}

// straddle opens the messages whose first text was broken by the end of the line before.
func (m *matcher) straddle(broken []*pattern) {
	if len(broken) == 0 {
		return
	}
	before, _ := m.recent.before(1)
	message, who := peel(string(before.text))
	for _, p := range broken {
		if p.Kind != Alarm {
			m.open = append(m.open, half{p, message, who, before.number, 1})
		}
	}
}

// goesOn holds messages that began in the lines before together with this one.
func (m *matcher) goesOn(message string) bool {
	still := m.open[:0]
	for _, h := range m.open {
		text := h.text + " " + strings.TrimSpace(message)
		joined := []string{text}
		if cutsWord(h.text, message) {
			joined = append(joined, h.text+message)
		}
		for _, text := range joined {
			if at, end, values, ok := h.pattern.match(text); ok && at < len(h.text) && end > len(h.text) {
				m.open = m.open[:0]
				m.own = slices.DeleteFunc(m.own, func(e event) bool { return e.line >= h.number })
				m.found(m.place(event{signature: h.pattern.Signature, values: values, speaker: h.who, line: h.number, text: evidence(text, at)}))
				return true
			}
		}
		if h.lines+1 < wrapped {
			still = append(still, half{h.pattern, text, h.who, h.number, h.lines + 1})
		}
	}
	m.open = still
	return false
}

func (m *matcher) found(e event) {
	h := m.seen.add(e)
	if e.signature == nil {
		return
	}
	m.repeats[e.signature] = repeat{h, m.repeats[e.signature].times + 1}
	if e.digest != 0 && len(m.same) < mostKnown {
		m.same[e.digest] = h
	}
}

// again counts a line that was there before, letter by letter, or a message that has
// been looked at often enough, of this speaker too.
func (m *matcher) again(s *Signature, l scanned) bool {
	h := m.same[l.digest]
	counted := false
	if r := m.repeats[s]; h == nil && r.times > mostTimes && !m.newcomer(s, l.text) {
		h, counted = r.last, true
	}
	if h == nil || h.signature != s {
		return false
	}
	if counted {
		m.seen.nameless++
	}
	h.count++
	h.last = m.seen.position
	return true
}

// newcomer is whether the first word of a line was not there before with this message.
func (m *matcher) newcomer(s *Signature, text []byte) bool {
	word, _, _ := bytes.Cut(text[:min(len(text), longestPrefix)], []byte(" "))
	if m.speakers[saying{s, string(word)}] || len(m.speakers) >= mostSpeakers {
		return false
	}
	m.speakers[saying{s, string(word)}] = true
	return true
}

// place says where, when and by whom, as far as the lines before tell.
func (m *matcher) place(e event) event {
	m.seen.homes.learn(e, m.file)
	e.file, e.position = m.file, m.seen.position
	e.rank = cmp.Or(e.rank, e.values["rank"])
	e.node = cmp.Or(e.node, e.values["node"], m.node)
	e.at = m.now()
	return e
}

// now is the last time that the log has shown up to here. Each line is asked once.
func (m *matcher) now() stamp {
	for n := range min(looked, m.recent.read-m.asked) {
		l, ok := m.recent.before(n)
		if !ok {
			break
		}
		if at, known := stampOf(l.text); known {
			m.clock = at
			break
		}
	}
	m.asked = m.recent.read
	return m.clock
}

// widest is how much of a message is shown as evidence.
const widest = 400

// evidence is the part of a message around what was found, which says where it was cut.
func evidence(message string, at int) string {
	if len(message) <= widest {
		return message
	}
	const room = widest - len("… ") - len(" …")
	from := max(0, min(at-widest/8, len(message)-room))
	text := message[from : from+room]
	if space := strings.LastIndexByte(text, ' '); from+room < len(message) && space > room-longestWord {
		text = text[:space]
	}
	if space := strings.IndexByte(text, ' '); from > 0 && message[from-1] != ' ' && 0 <= space && space < min(longestWord, at-from) {
		text = text[space+1:]
	}
	if from > 0 {
		text = "… " + text
	}
	if from+room < len(message) {
		text += " …"
	}
	return strings.ToValidUTF8(text, "")
}

// longestWord is how far from where a text must be cut it is looked for the end of a word.
const longestWord = 40
