// SPDX-License-Identifier: Apache-2.0

// Package direct computes and talks by the libraries themselves, without torch: by the libcuda
// of the driver, and by the libnccl that the ranks will load. It is the child's side of a rank
// (see package smoke): one process with one GPU, for within one process NCCL would go around
// the IPC handles and the shared memory that ranks use.
//
// Neither library is linked, and a function that one lacks is a word, no crash. Each call is
// announced before it is made. The package changes no clock and no mode of a GPU, keeps its
// hands off one that is in use, and listens nowhere: where ranks meet is NCCL's own choice.
package direct

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"preflight/drill/smoke"
	"preflight/facts"
)

// words are what a rank says, each by one write. Nobody is left to tell when that fails, and
// the parent sees the end of the stream.
type words struct {
	sync.Mutex
	out  io.Writer
	call string // announced last
	over bool   // somebody has the floor, to the end
}

// at announces a call, once where it is made again and again.
func (w *words) at(call string) {
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

// last takes the floor, unless somebody has: what others say is not heard any more. It tells
// the call that was announced last.
func (w *words) last() (call string, mine bool) {
	w.Lock()
	defer w.Unlock()
	mine, w.over = !w.over, true
	return w.call, mine
}

func (w *words) send(word smoke.Word) {
	if !w.over {
		w.write(word)
	}
}

// write is for who has the floor, or the lock. It begins with an end of line too, in case a library has printed half a one.
func (w *words) write(word smoke.Word) {
	text, err := json.Marshal(word)
	if err != nil {
		panic("drill/smoke/direct: " + err.Error()) // plain values always encode
	}
	_, _ = w.out.Write(fmt.Appendf(nil, "\n%s\n", text))
}

// absent is that there is nothing to do it with.
func absent(call, message string) *facts.SmokeFailure {
	return &facts.SmokeFailure{Kind: facts.SmokeAbsent, Call: call, Message: message}
}
