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

// A rank is not trusted: what it prints is shortened, and the rest dropped.
const (
	maxWord = 16 << 10 // bytes of a word
	maxLog  = 16       // number of log lines that are kept, the last ones
	maxLine = 400      // bytes of each, and of a text in a word
)

// transcript is what a rank has printed: the words that are for us, and the last lines that
// libraries print. It reuses its memory, because an agent avoids garbage collection.
type transcript struct {
	mu          sync.Mutex
	currentCall string
	answer      chan Word // receives the answer that is due, nil if none is
	log         [maxLog][]byte
	logged      int
}

// expect returns the channel for the next answer. Until the rank announces a call, at counts as its
// current call.
func (t *transcript) expect(at string) <-chan Word {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.currentCall, t.answer = at, make(chan Word, 1)
	return t.answer
}

// word handles a line of standard output.
func (t *transcript) word(line []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var word Word
	switch {
	case t.answer == nil || !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, &word) != nil:
		t.keepLine(line)
	case word.Done != nil || word.Failed != nil:
		t.answer <- word
		t.answer = nil
	case word.At != "":
		t.currentCall = clip(word.At)
	}
}

// complaint handles a line of standard error.
func (t *transcript) complaint(line []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keepLine(line)
}

func (t *transcript) keepLine(line []byte) {
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return
	}
	slot := &t.log[t.logged%maxLog]
	*slot = append((*slot)[:0], line[:min(len(line), maxLine)]...)
	t.logged++
}

// last returns the current call, and the last lines of the log.
func (t *transcript) last() (at string, log []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := max(t.logged-maxLog, 0); i < t.logged; i++ {
		log = append(log, strings.ToValidUTF8(string(t.log[i%maxLog]), "�"))
	}
	return t.currentCall, log
}

// clip shortens a text to the length that is kept.
func clip(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxLine)], "") }

// eachLine reads in to its end. It shortens lines that are longer than a word may be. A line is
// valid only until each returns.
func eachLine(in io.Reader, each func(line []byte)) {
	lines := hostsys.Lines{Most: maxWord, Take: each}
	_, _ = io.Copy(&lines, in)
	lines.Flush()
}
