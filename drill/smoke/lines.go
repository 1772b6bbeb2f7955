// SPDX-License-Identifier: Apache-2.0

package smoke

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"sync"

	"preflight/internal/hostsys"
)

// A rank is not trusted: what it prints is cut, and the rest dropped.
const (
	maxWord = 16 << 10 // bytes of a word
	maxLog  = 16       // lines that are kept of its log, the last ones
	maxLine = 400      // bytes of each, and of what a word says
)

// transcript is what a rank has printed: the words that are for us, told from what libraries
// print, whose last lines it keeps in the same place: an agent collects no garbage if it can.
type transcript struct {
	mu     sync.Mutex
	at     string
	answer chan Word // where the answer that is due goes, nil where none is
	log    [maxLog][]byte
	logged int
}

// expect is where the answer will come; until the rank says what it is at, it is at that.
func (t *transcript) expect(at string) <-chan Word {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at, t.answer = at, make(chan Word, 1)
	return t.answer
}

// word takes a line of standard output.
func (t *transcript) word(line []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var word Word
	switch {
	case t.answer == nil || !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, &word) != nil:
		t.keep(line)
	case word.Done != nil || word.Failed != nil:
		t.answer <- word
		t.answer = nil
	case word.At != "":
		t.at = clip(word.At)
	}
}

// complaint takes a line of standard error.
func (t *transcript) complaint(line []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keep(line)
}

func (t *transcript) keep(line []byte) {
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return
	}
	slot := &t.log[t.logged%maxLog]
	*slot = append((*slot)[:0], line[:min(len(line), maxLine)]...)
	t.logged++
}

// last is what it was at, and the last lines of its log.
func (t *transcript) last() (at string, log []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := max(t.logged-maxLog, 0); i < t.logged; i++ {
		log = append(log, strings.ToValidUTF8(string(t.log[i%maxLog]), "�"))
	}
	return t.at, log
}

// clip is as much of a text as is kept of any.
func clip(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxLine)], "") }

// eachLine reads in to its end. Lines are cut where they are longer than a word may be, and
// are each's only until it returns.
func eachLine(in io.Reader, each func(line []byte)) {
	lines := hostsys.Lines{Most: maxWord, Take: each}
	_, _ = io.Copy(&lines, in)
	lines.Flush()
}
