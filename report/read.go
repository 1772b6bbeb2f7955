package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"

	"preflight/checks"
	"preflight/hostfile"
)

// Read reads a report that JSON or [Normalized] wrote. Of a file that is none the error
// says what is there instead, and in which line.
func Read(in io.Reader) (checks.Report, error) {
	var r checks.Report
	lines := &lineEnds{}
	decoder := json.NewDecoder(io.TeeReader(in, lines))
	err := decoder.Decode(&r)
	switch {
	case err != nil:
	case r.Schema != checks.Schema:
		return r, fmt.Errorf("its schema is %d, this preflight reads schema %d", r.Schema, checks.Schema)
	default:
		end := decoder.InputOffset()
		if err = decoder.Decode(&struct{}{}); err == io.EOF {
			err = nil
		} else {
			err = fmt.Errorf("it ends in line %d, and something follows", lines.at(end-1))
		}
	}
	if err != nil {
		return r, fmt.Errorf("not a preflight report: %w", lines.plain(err))
	}
	if i := slices.IndexFunc(r.Launch.Hosts, negative); i >= 0 {
		return r, fmt.Errorf("not a preflight report: the slots of %s are counted from 0", Escape(r.Launch.Hosts[i].Name))
	}
	if r.Normalized {
		r.Fleet = checks.LastingFleet(r.Fleet, r.Launch)
	}
	return r, nil
}

// negative is whether a host has a slot that no machine has.
func negative(host hostfile.Host) bool {
	return slices.ContainsFunc(host.Slots, func(slot int) bool { return slot < 0 })
}

// lineEnds is where the lines of a text end that is read.
type lineEnds struct {
	read int64
	ends []int64
}

func (l *lineEnds) Write(text []byte) (int, error) {
	for i, c := range text {
		if c == '\n' {
			l.ends = append(l.ends, l.read+int64(i))
		}
	}
	l.read += int64(len(text))
	return len(text), nil
}

// at is the number of the line that a byte is in.
func (l *lineEnds) at(offset int64) int {
	return 1 + sort.Search(len(l.ends), func(i int) bool { return l.ends[i] >= offset })
}

// plain says in words for a person what the decoder stumbled over, other errors as they are.
func (l *lineEnds) plain(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("it ends in the middle, in line %d", l.at(l.read))
	}
	if errors.Is(err, io.EOF) {
		return errors.New("it is empty")
	}
	if wrong, is := errors.AsType[*json.SyntaxError](err); is {
		return fmt.Errorf("line %d: %w", l.at(wrong.Offset-1), err)
	}
	if wrong, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		field := cmp.Or(strings.TrimPrefix(wrong.Field, "Fleet."), "the whole")
		return fmt.Errorf("line %d: %s is of another kind: %s", l.at(wrong.Offset-1), field, wrong.Value)
	}
	return err
}
