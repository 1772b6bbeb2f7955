// SPDX-License-Identifier: Apache-2.0

// Package nvml asks NVIDIA's management library what it knows of this machine.
// It is the child's side: preflight starts itself anew for it, reads what comes,
// and ends the child when nothing does.
//
// Asking a driver may hang, crash or end the process (a sick GPU, an old library
// that lacks a symbol), so each call is announced before it is made and what it
// told is written at once: whoever reads knows where it ended and keeps what came
// before. The package changes no setting of any GPU, never resets one, judges
// nothing, and gives up on nothing by itself: deadlines are the parent's.
package nvml

import (
	"encoding/json"
	"fmt"
	"io"

	"preflight/facts"
)

// WithoutCgo is why a preflight that was built without a C compiler asks nobody.
const WithoutCgo = "this preflight was built without cgo, which NVML takes"

// Line is one line of the child's output, a JSON object each. Lines of other
// shapes are noise of the library.
type Line struct {
	// Call is about to be made, of a GPU or, with Card nil, of the library.
	Call string `json:"call,omitempty"`
	Card *int   `json:"card,omitempty"`

	// What was seen, as soon as it was. Seen is a GPU as far as it is known: the
	// last one with its index counts. Hidden counts those that are not shown to us.
	System   *System     `json:"system,omitempty"`
	Seen     *facts.Card `json:"seen,omitempty"`
	Hidden   int         `json:"hidden,omitempty"`
	Topology [][]string  `json:"topology,omitempty"`
	Peers    [][]string  `json:"peers,omitempty"`

	// Unloaded is why there is no library to ask, Failure is how the driver
	// refused; Done is the last line, of a child that asked all it wanted to.
	Unloaded string             `json:"unloaded,omitempty"`
	Failure  *facts.NVMLFailure `json:"failure,omitempty"`
	Done     bool               `json:"done,omitempty"`
}

// System is what the driver says of itself, as in [facts.NVML].
type System struct {
	Driver  string `json:"driver,omitempty"`
	Library string `json:"library,omitempty"`
	CUDA    string `json:"cuda,omitempty"`
}

// lines writes what the child found, each line by one write. Nobody is left
// to tell when that fails, and the parent sees the end of the stream.
type lines struct{ out io.Writer }

// send begins with an end of line too, in case the library has printed half a one.
func (l lines) send(line Line) {
	text, err := json.Marshal(line)
	if err != nil {
		panic("probe/nvml: " + err.Error()) // plain values always encode
	}
	_, _ = l.out.Write(fmt.Appendf(nil, "\n%s\n", text))
}
