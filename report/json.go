package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/facts"
	"preflight/facts/bounded"
	"preflight/hostfile"
	"preflight/secret"
)

// JSON writes a report in schema 1. Snapshots are the same file.
func JSON[Report any](w io.Writer, r Report) error {
	encoder := Encoder(w)
	encoder.SetIndent("", " ")
	return encoder.Encode(r)
}

// Encoder writes JSON without characters that a terminal, a reader of the source or a
// runner of CI would be misled by.
func Encoder(w io.Writer) *json.Encoder { return json.NewEncoder(jsonGuard{w}) }

// What a file may hold for its size. A report of ours has some 20 bytes for every value.
const (
	bytesOfValue = 8
	leastValues  = 1 << 14
)

// Read reads a report that JSON or [Normalized] wrote. Of a file that is none the error
// says what is there instead, and in which line.
func Read(in io.Reader) (checks.Report, error) {
	var r checks.Report
	text, err := io.ReadAll(in)
	if err != nil {
		return r, err
	}
	if _, err := bounded.Check(text, leastValues+len(text)/bytesOfValue); err != nil {
		return r, fmt.Errorf("not a preflight report: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	err = decoder.Decode(&r)
	switch {
	case err != nil:
	case r.Schema != checks.Schema:
		return r, fmt.Errorf("its schema is %d, this preflight reads schema %d", r.Schema, checks.Schema)
	default:
		end := decoder.InputOffset()
		if err = decoder.Decode(&struct{}{}); err == io.EOF {
			err = nil
		} else {
			err = fmt.Errorf("unexpected text after its end in line %d", 1+bytes.Count(text[:end], []byte("\n")))
		}
	}
	if err != nil {
		return r, fmt.Errorf("not a preflight report: %w", plain(err, text))
	}
	negative := func(host hostfile.Host) bool { // no machine has such a slot
		return slices.ContainsFunc(host.Slots, func(slot int) bool { return slot < 0 })
	}
	if i := slices.IndexFunc(r.Launch.Hosts, negative); i >= 0 {
		return r, fmt.Errorf("not a preflight report: the slots of %s are counted from 0", Escape(r.Launch.Hosts[i].Name))
	}
	if err := unrecorded(text, &r.Fleet); err != nil {
		return r, err
	}
	secret.Within(&r) // as a node that is looked at today would tell it
	if r.Normalized {
		r.Fleet = agreement.LastingFleet(r.Fleet, r.Launch)
	}
	return r, nil
}

// unrecorded notes what the file does not say of its nodes, one of them after the other: a
// large file is not held twice.
func unrecorded(text []byte, fleet *facts.Fleet) error {
	var saved struct {
		Head  json.RawMessage
		Nodes []json.RawMessage
	}
	if err := json.Unmarshal(text, &saved); err != nil {
		return err
	}
	if fleet.Head != nil {
		saved.Nodes = append(saved.Nodes, saved.Head)
	}
	for i, raw := range saved.Nodes {
		var node struct{ Facts map[string]any }
		if err := json.Unmarshal(raw, &node); err != nil {
			return err
		}
		if i < len(fleet.Nodes) {
			fleet.Nodes[i].Unrecorded = facts.Unrecorded(node.Facts)
		} else {
			fleet.Head.Unrecorded = facts.Unrecorded(node.Facts)
		}
	}
	return nil
}

// plain says in words for a person what the decoder stumbled over, and in which line of the
// text; other errors as they are.
func plain(err error, text []byte) error {
	line := func(offset int64) int { return 1 + bytes.Count(text[:min(offset, int64(len(text)))], []byte("\n")) }
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("truncated in line %d", line(int64(len(text))))
	}
	if errors.Is(err, io.EOF) {
		return errors.New("it is empty")
	}
	if wrong, is := errors.AsType[*json.SyntaxError](err); is {
		return fmt.Errorf("line %d: %w", line(wrong.Offset-1), err)
	}
	if wrong, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		field := cmp.Or(strings.TrimPrefix(wrong.Field, "Fleet."), "the whole")
		return fmt.Errorf("line %d: %s has the wrong type: %s", line(wrong.Offset-1), field, wrong.Value)
	}
	return err
}
