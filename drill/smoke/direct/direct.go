// SPDX-License-Identifier: Apache-2.0

// Package direct computes and communicates with the libraries themselves, without torch: the
// driver's libcuda, and the libnccl that the ranks will load. It is the child's side of a rank (see
// package smoke): one process with one GPU, because within one process NCCL would not use the IPC
// handles and the shared memory that ranks use.
//
// Neither library is linked, and a missing function is a message and not a crash. Each call is
// announced before it is made. The package changes no clock and no mode of a GPU, does not use one
// that is in use, and listens nowhere: NCCL chooses where the ranks meet.
package direct

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"preflight/drill/smoke"
	"preflight/facts"
)

// words are what a rank prints, each with one write. A write error has no one to be reported to;
// the parent sees the end of the stream.
type words struct {
	sync.Mutex
	out         io.Writer
	call        string // the last one announced
	lastWritten bool   // the last word is being written; no other may follow
}

// announce announces a call; repeated calls are announced once.
func (w *words) announce(call string) {
	w.Lock()
	defer w.Unlock()
	if call != w.call {
		w.call = call
		w.send(smoke.Word{At: call})
	}
}

func (w *words) done(done smoke.Done) {
	w.Lock()
	defer w.Unlock()
	w.send(smoke.Word{Done: &done})
}

func (w *words) failed(failure facts.SmokeFailure) {
	w.Lock()
	defer w.Unlock()
	w.send(smoke.Word{Failed: &failure})
}

// last reserves the last word, unless it is taken: nothing else is printed from then on. It returns
// the call that was announced last.
func (w *words) last() (call string, mine bool) {
	w.Lock()
	defer w.Unlock()
	mine, w.lastWritten = !w.lastWritten, true
	return w.call, mine
}

func (w *words) send(word smoke.Word) {
	if !w.lastWritten {
		w.write(word)
	}
}

// write must be called with the lock or after last. It begins with a newline as well, in case a
// library has printed half a line.
func (w *words) write(word smoke.Word) {
	text, err := json.Marshal(word)
	if err != nil {
		panic("drill/smoke/direct: " + err.Error()) // plain values always encode
	}
	_, _ = w.out.Write(fmt.Appendf(nil, "\n%s\n", text))
}

// absent returns the failure for something that is missing.
func absent(call, message string) *facts.SmokeFailure {
	return &facts.SmokeFailure{Kind: facts.SmokeAbsent, Call: call, Message: message}
}
