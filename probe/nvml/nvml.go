// SPDX-License-Identifier: Apache-2.0

// Package nvml asks NVIDIA's management library about this machine. It is the child's side:
// preflight starts itself again for it, reads its output, and ends the child if none comes.
//
// Asking a driver may hang, crash or end the process (a broken GPU, an old library that lacks a
// symbol). So each call is announced before it is made, and its result is written at once: the
// reader knows where it ended and keeps what came before. The package changes no setting of any
// GPU, never resets one, does not evaluate results, and has no deadlines of its own; those are the
// parent's.
package nvml

import (
	"encoding/json"
	"fmt"
	"io"

	"preflight/facts"
)

// WithoutCgo is the reason why a preflight that was built without a C compiler cannot ask the
// driver.
const WithoutCgo = "this preflight was built without cgo, which NVML takes"

// Line is one line of the child's output, a JSON object each. Other lines are output of the
// library.
type Line struct {
	// Call is about to be made, for a GPU or, if Card is nil, for the library.
	Call string `json:"call,omitempty"`
	Card *int   `json:"card,omitempty"`

	// Results, as soon as they are known. Seen is a GPU as far as it is known: the last one with
	// its index counts. Hidden counts those that are not shown to us.
	System   *System     `json:"system,omitempty"`
	Seen     *facts.Card `json:"seen,omitempty"`
	Hidden   int         `json:"hidden,omitempty"`
	Topology [][]string  `json:"topology,omitempty"`
	Peers    [][]string  `json:"peers,omitempty"`

	// Unloaded is why there is no library to ask, and Failure is the driver's refusal. Done is in
	// the last line of a child that has finished.
	Unloaded string             `json:"unloaded,omitempty"`
	Failure  *facts.NVMLFailure `json:"failure,omitempty"`
	Done     bool               `json:"done,omitempty"`
}

// System is what the driver reports about itself, as in [facts.NVML].
type System struct {
	Driver  string `json:"driver,omitempty"`
	Library string `json:"library,omitempty"`
	CUDA    string `json:"cuda,omitempty"`
}

// lines writes the child's results, each line with one write. A write error has no one to be
// reported to; the parent sees the end of the stream.
type lines struct{ out io.Writer }

// send begins with a newline as well, in case the library has printed half a line.
func (l lines) send(line Line) {
	text, err := json.Marshal(line)
	if err != nil {
		panic("probe/nvml: " + err.Error()) // plain values always encode
	}
	_, _ = l.out.Write(fmt.Appendf(nil, "\n%s\n", text))
}
