// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"preflight/explain/flight"
)

// recording is the dump of a rank's flight recorder.
type recording struct {
	flight.Dump
	file int // index of the source
}

var errLongDump = errors.New("a dump of a flight recorder with more than can be read: TORCH_NCCL_TRACE_BUFFER_SIZE=2000 keeps what is needed")

// recorded reads the dump of one rank. What it tells is known when all have been read.
func (t *tally) recorded(name string, file int, in io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(in, flight.Most+1))
	switch {
	case err != nil:
		return err
	case len(text) > flight.Most:
		return errLongDump
	}
	dump, err := flight.Read(name, text)
	if err != nil {
		return err
	}
	if twice := slices.IndexFunc(t.flights, func(r recording) bool { return r.Rank == dump.Rank }); twice >= 0 {
		return fmt.Errorf("rank %d has left %s, too: give the dumps of one run", dump.Rank, t.sources[t.flights[twice].file])
	}
	t.flights = append(t.flights, recording{dump, file})
	t.lines += len(dump.Calls)
	return nil
}

// compare has what the dumps tell together read as if each rank had said it where its record is.
func (c *Catalogue) compare(t *tally) {
	var dumps []flight.Dump
	for _, r := range t.flights {
		dumps = append(dumps, r.Dump)
	}
	for _, said := range flight.Compare(dumps) {
		m := c.matcher(t.flights[said.Dump].file, t)
		_, _ = c.index.scan(strings.NewReader(said.Text), func(l scanned) { // of a text in memory nothing fails
			l.number = said.Record
			m.take(l)
		})
		m.end()
	}
}
