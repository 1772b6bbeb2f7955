// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"preflight/internal/logtext"
)

const (
	// wrapped is the maximum number of lines into which a terminal or a form may break a message.
	// Each of these lines has its own prefix.
	wrapped = 4
	// mostVain limits how many times a line that might begin a message is joined with the following
	// lines without a match.
	mostVain = 1000
	// mostTimes limits how many times one message is examined closely in each log. Further
	// repetitions are only counted.
	mostTimes = 10_000
	// looked is how many earlier lines are searched for a time stamp if a line has none.
	looked = remembered - 1
)

// event is one message that matches a signature, or one exception or alarm.
type event struct {
	signature *Signature
	exception string            // text of an exception or alarm whose meaning no signature knows
	launcher  string            // the launcher whose own code raised the exception, "" for a program
	values    map[string]string // values of the message, by group name of the pattern
	told      *furtherLines     // further lines of an exception, nil for other messages
	speaker
	at       logtext.Stamp
	file     int // index of the source
	line     int
	position int // line number over all sources
	text     string
	digest   uint64 // digest of the line
}

type matcher struct {
	catalogue  *Catalogue
	file       int
	node       string // node of the whole file, "" if only the lines can show the node
	recent     recent
	clock      logtext.Stamp    // the last time stamp that was found
	asked      int              // number of lines that had been read when the time stamp was found
	vain       map[*pattern]int // how many times the pattern was possible but did not match
	repeats    map[*Signature]repeat
	same       map[uint64]*occurrence // occurrences by the digest of their line
	speakers   map[saying]bool        // speakers of frequent messages that were already examined
	open       []half
	own        []event // exceptions and alarms that may turn out to be the start of a message
	tracebacks tracebacks
	telling    []*furtherLines
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

// half is the start of a message that may continue on the next line.
type half struct {
	pattern *pattern
	text    string
	who     speaker
	number  int // number of the message's first line
	lines   int
}

// saying is a message and the first word of its line, which usually names the node or rank.
type saying struct {
	*Signature
	word string
}

// mostSpeakers limits how many additional lines are examined closely because their first word is
// new.
const mostSpeakers = 4096

// take processes the next line of the log.
func (m *matcher) take(l scanned) {
	m.seen.position++
	m.recent.add(l.line)
	m.seen.network.take(m.node, l.text)
	m.extend(l.line)
	exception, launcher := m.tracebacks.take(&m.recent, l.text)
	m.seen.launchers[launcher] = true
	m.straddle(l.broken)
	m.settle(l.text)
	if len(l.candidates) == 0 && len(m.open) == 0 && exception == "" {
		return
	}
	switch p := l.first; {
	case p != nil && p.silent() && !p.beside(l.candidates): // fast path: in a long log, one success message may occur a million times
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
	if tableEnd.Match(message) {
		who = m.recent.inTable(who)
		l.digest = 0 // equal lines may come from different nodes, because containers on all nodes have the same process IDs
	}
	if m.goesOn(message) {
		return
	}
	var goesOn *furtherLines
	if exception != "" {
		goesOn = m.followLines(l.line, l.text[:len(l.text)-len(message)])
	}
	known := false
	for _, p := range l.possible() {
		if known && p.Kind != Alarm {
			continue
		}
		var at int
		var values map[string]string
		// If a pattern has no groups, the report shows the whole line. An alarm that was already found
		// needs no second look.
		parts := p.says.NumSubexp() > 0 || len(message) > widest
		if (p != l.first || !parts && p.Kind != Alarm) && !p.matches(message) {
			continue
		}
		if parts {
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
		m.own = append(m.own, m.place(event{exception: exception, launcher: launcher, told: goesOn, speaker: who, line: l.number, text: evidence(message, 0)}))
	}
	for _, p := range l.candidates {
		if m.vain[p]++; m.vain[p] < mostVain && p.Kind != Alarm {
			m.open = append(m.open, half{p, message, who, l.number, 1})
		}
	}
}

// undecided is the number of lines after an exception within which another line may show that the
// exception caused another exception.
const undecided = 3

// settle reports exceptions without a signature. It waits until an exception can no longer be the
// start of a message and has not led to another exception.
func (m *matcher) settle(text []byte) {
	if len(m.own) == 0 {
		return
	}
	if chains(text) {
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

// end reports what is incomplete at the end of a log, such as a traceback without its exception.
func (m *matcher) end() {
	for _, e := range append(m.own, m.tracebacks.cut()...) {
		m.found(e)
	}
}

// beside reports whether p is context for other messages and may share its line with an alarm.
func (p *pattern) beside(candidates []*pattern) bool {
	return p.Kind == Context && candidates[len(candidates)-1].Kind == Alarm
}

// allVain reports whether all candidates have failed to match so often that they are no longer
// tried.
func (m *matcher) allVain(candidates []*pattern) bool {
	return !slices.ContainsFunc(candidates, func(p *pattern) bool { return m.vain[p] < mostVain })
}

// straddle opens the messages whose literal text begins on the previous line and ends on the
// current line.
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

// goesOn joins open messages from earlier lines with the current line and reports whether one of
// the messages now matches.
func (m *matcher) goesOn(message string) bool {
	still := m.open[:0]
	for _, h := range m.open {
		text := h.text + " " + strings.TrimSpace(message)
		joined := []string{text}
		if cutsWord(h.text, message) {
			joined = append(joined, h.text+message)
		}
		for _, text := range joined {
			if !h.pattern.matches(text) {
				continue
			}
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

// again counts a line that repeats an earlier line exactly, and a message that was already examined
// often enough for this speaker. It reports whether it counted the line.
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

// newcomer reports whether the first word of a line is new for this message.
func (m *matcher) newcomer(s *Signature, text []byte) bool {
	word, _, _ := bytes.Cut(text[:min(len(text), longestPrefix)], []byte(" "))
	if m.speakers[saying{s, string(word)}] || len(m.speakers) >= mostSpeakers {
		return false
	}
	m.speakers[saying{s, string(word)}] = true
	return true
}

// place adds the file, the position, the speaker and the time to an event, as far as the earlier
// lines show them.
func (m *matcher) place(e event) event {
	m.seen.homes.learn(e, m.file)
	e.file, e.position = m.file, m.seen.position
	e.rank = cmp.Or(e.rank, e.values["rank"])
	e.node = cmp.Or(e.node, e.values["node"], m.node)
	e.at = m.now()
	return e
}

// now returns the last time stamp in the log so far. Each line is searched once.
func (m *matcher) now() logtext.Stamp {
	for n := range min(looked, m.recent.read-m.asked) {
		l, ok := m.recent.before(n)
		if !ok {
			break
		}
		if at, known := logtext.StampOf(l.text); known {
			m.clock = at
			break
		}
	}
	m.asked = m.recent.read
	return m.clock
}

// widest is the maximum length in bytes of a message that is shown as evidence.
const widest = 400

// evidence returns the part of a message around the match. "…" marks where text was cut.
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

// longestWord is how many bytes from the cut a word boundary is searched.
const longestWord = 40
