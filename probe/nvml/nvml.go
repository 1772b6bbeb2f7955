// SPDX-License-Identifier: Apache-2.0

// Package nvml asks NVIDIA's management library about this machine. It runs in a child process:
// preflight starts itself again for this purpose, reads the child's output, and ends the child if
// no output comes.
//
// Asking a driver may hang, crash or end the process (a broken GPU, an old library that lacks a
// symbol). So the child announces each call before it makes the call, and writes the result at
// once. The reader then knows where the child ended, and keeps all results before that point.
//
// The package changes no setting of any GPU and never resets one. It does not evaluate results, and
// has no deadlines; the parent sets those.
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

// Line is one line of the child's output. Each line is a JSON object. All other lines are output of
// the library.
type Line struct {
	// Call is the call that the child is about to make. It is about a GPU or, if Card is nil, about
	// the library.
	Call string `json:"call,omitempty"`
	Card *int   `json:"card,omitempty"`

	// These fields are results, sent as soon as they are known. Seen holds what is known about a
	// GPU; the last one with the GPU's index counts. Hidden counts the GPUs that are not shown to
	// this session.
	System   *System     `json:"system,omitempty"`
	Seen     *facts.Card `json:"seen,omitempty"`
	Hidden   int         `json:"hidden,omitempty"`
	Topology [][]string  `json:"topology,omitempty"`
	Peers    [][]string  `json:"peers,omitempty"`

	// Unloaded says why there is no library to ask. Failure is the driver's refusal. Done is set in
	// the last line of a child that has finished.
	Unloaded string             `json:"unloaded,omitempty"`
	Failure  *facts.NVMLFailure `json:"failure,omitempty"`
	Done     bool               `json:"done,omitempty"`
}

// System holds what the driver reports about itself, as in [facts.NVML].
type System struct {
	Driver  string `json:"driver,omitempty"`
	Library string `json:"library,omitempty"`
	CUDA    string `json:"cuda,omitempty"`
}

// lines writes the child's results, each line with one write. A write error cannot be reported to
// anyone; the parent sees the end of the stream.
type lines struct{ out io.Writer }

// send writes a line. The output also begins with a newline, in case the library has printed half a
// line.
func (l lines) send(line Line) {
	text, err := json.Marshal(line)
	if err != nil {
		panic("probe/nvml: " + err.Error()) // encoding plain values never fails
	}
	_, _ = l.out.Write(fmt.Appendf(nil, "\n%s\n", text))
}
