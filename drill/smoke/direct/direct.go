// SPDX-License-Identifier: Apache-2.0

// Package direct computes and communicates with the libraries themselves, without torch: the
// driver's libcuda, and the libnccl that the ranks will load. It runs in the child process of a
// rank (see package smoke). Each process has one GPU, because within one process NCCL would not use
// the IPC handles and the shared memory that ranks use.
//
// Neither library is linked, so a missing function causes a message and not a crash. The package
// announces each call before it makes the call. It changes no clock and no mode of a GPU, and does
// not use a GPU that is in use. It listens nowhere: NCCL chooses where the ranks meet.
package direct

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"preflight/drill/smoke"
	"preflight/facts"
)

// words prints the words of a rank, each with one write. A write error cannot be reported to
// anyone; the parent sees the end of the stream.
type words struct {
	sync.Mutex
	out         io.Writer
	call        string // the call that was announced last
	lastWritten bool   // the last word is being written, and no other word may follow
}

// announce announces a call. It announces repeated calls only once.
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

// last reserves the right to print the last word, unless another caller has it. After that, nothing
// else is printed. last returns the call that was announced last.
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

// write prints a word. The caller must hold the lock, or have called last. The output also begins
// with a newline, in case a library has printed half a line.
func (w *words) write(word smoke.Word) {
	text, err := json.Marshal(word)
	if err != nil {
		panic("drill/smoke/direct: " + err.Error()) // encoding plain values never fails
	}
	_, _ = w.out.Write(fmt.Appendf(nil, "\n%s\n", text))
}

// absent returns the failure for something that is missing.
func absent(call, message string) *facts.SmokeFailure {
	return &facts.SmokeFailure{Kind: facts.SmokeAbsent, Call: call, Message: message}
}
