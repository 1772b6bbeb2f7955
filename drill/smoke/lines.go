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

// A rank is not trusted. These constants limit what is kept of its output; the rest is dropped.
const (
	maxWord = 16 << 10 // bytes of a word
	maxLog  = 16       // number of log lines that are kept; these are the last lines
	maxLine = 400      // bytes of each log line, and of a text in a word
)

// transcript holds what a rank has printed: the words for the agent, and the last lines that
// libraries print. It reuses its memory, because an agent avoids garbage collection.
type transcript struct {
	mu          sync.Mutex
	currentCall string
	answer      chan Word // receives the answer to the current order, nil if there is none
	log         [maxLog][]byte
	logged      int
}

// expect returns the channel for the next answer. Until the rank announces a call, at is the rank's
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

// last returns the current call and the last lines of the log.
func (t *transcript) last() (at string, log []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := max(t.logged-maxLog, 0); i < t.logged; i++ {
		log = append(log, strings.ToValidUTF8(string(t.log[i%maxLog]), "�"))
	}
	return t.currentCall, log
}

// clip shortens a text to maxLine bytes.
func clip(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxLine)], "") }

// eachLine reads in to its end and calls each for every line. It shortens lines that are longer
// than the longest word. A line is valid only until each returns.
func eachLine(in io.Reader, each func(line []byte)) {
	lines := hostsys.Lines{Most: maxWord, Take: each}
	_, _ = io.Copy(&lines, in)
	lines.Flush()
}
