package formats

import (
	"bufio"
	"encoding/json"
	"io"
	"slices"
)

// Kept is what is lost with a file that is written over, the least first. What is worth
// as much or more may replace it.
type Kept int

const (
	Foreign            Kept = iota // a user's own: not to be written over at all
	Rendering                      // a report that judging a run again would bring back, a list of hosts, or nothing
	SavedRun                       // what nodes told, which only another run would bring
	NormalizedSnapshot             // what [report.Normalized] writes, to be committed and reviewed
)

// Worth is what a file of the format will be.
func (f Format) Worth() Kept {
	if f.Facts {
		return SavedRun
	}
	return Rendering
}

// mostOfStart is how much of a file is looked at: more than the longest status line.
const mostOfStart = 1 << 14

// Wrote is what a file holds: a report of any schema in any of our formats or a list of
// hosts of ours, or else what is [Foreign]. A file that cannot be read is that, too.
func Wrote(in io.Reader) Kept {
	buffered := bufio.NewReaderSize(in, mostOfStart)
	start, err := buffered.Peek(mostOfStart)
	switch {
	case err == nil:
		start = append(slices.Clip(start), "\n…"...) // no pattern is to take it for the end
	case err != io.EOF:
		return Foreign
	case len(start) == 0:
		return Rendering
	}
	at := slices.IndexFunc(All, func(f Format) bool { return f.Start.Match(start) })
	switch {
	case at < 0:
		return Foreign
	case All[at].Facts:
		return keptInJSON(buffered)
	}
	return Rendering
}

// keptInJSON looks no further than the schema, which JSON writes first, the key behind it,
// by which a normalized snapshot is known, and the nodes. Of a file that was cut short
// nobody reads any.
func keptInJSON(in io.Reader) Kept {
	decoder := json.NewDecoder(in)
	if _, err := decoder.Token(); err != nil {
		return Foreign
	}
	for number := 0; decoder.More(); number++ {
		key, err := decoder.Token()
		if err != nil {
			break
		}
		if key == "nodes" {
			if begin, err := decoder.Token(); err == nil && begin == json.Delim('[') && decoder.More() {
				return SavedRun
			}
			break
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			break
		}
		if number == 1 && key == "normalized" && string(value) == "true" {
			return NormalizedSnapshot
		}
	}
	return Rendering
}
