// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bufio"
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
	"preflight/internal/secret"
	"preflight/internal/text"
)

// Encoder writes JSON without characters that a terminal, a reader of the source or a
// runner of CI would be misled by.
func Encoder(w io.Writer) *json.Encoder { return json.NewEncoder(jsonGuard{w}) }

// What a file may hold for its size, so that a small one takes little memory whatever it
// says. A report of ours has some ten bytes for every value, as [bounded.Check] counts.
const (
	leastValues  = 1 << 16
	bytesOfValue = 3
	// maxText is some times what the report of ten thousand nodes has, of eight GPUs each: 32 KB a
	// node, and more where machines have more in them.
	maxText = 1 << 30
)

// saved is a report as a file has it, but for its nodes: they are most of it, and are decoded
// one after the other.
type saved struct {
	checks.Report
	Head  json.RawMessage `json:"head"`
	Nodes []passed        `json:"nodes"`
}

// passed is a value that is counted and not decoded.
type passed struct{}

func (*passed) UnmarshalJSON([]byte) error { return nil }

// Read reads a report that JSON or [Normalized] wrote. Of a file that is none the error
// says what is there instead, and in which line.
func Read(in io.Reader) (checks.Report, error) {
	var file saved
	content, err := readText(in)
	if err != nil {
		return file.Report, err
	}
	most := leastValues + len(content)/bytesOfValue
	if _, err := bounded.Check(content, most); err != nil {
		return file.Report, fmt.Errorf("not a preflight report: %w", err)
	}
	err = json.Unmarshal(content, &file)
	switch {
	case err != nil:
	case file.Schema != checks.Schema:
		return file.Report, fmt.Errorf("its schema is %d, this preflight reads schema %d", file.Schema, checks.Schema)
	default:
		err = file.readNodes(content, most)
	}
	r := file.Report
	if err != nil {
		return r, fmt.Errorf("not a preflight report: %w", plain(err, content))
	}
	negative := func(host hostfile.Host) bool { // no machine has such a slot
		return slices.ContainsFunc(host.Slots, func(slot int) bool { return slot < 0 })
	}
	if i := slices.IndexFunc(r.Launch.Hosts, negative); i >= 0 {
		return r, fmt.Errorf("not a preflight report: the slots of %s are counted from 0", text.Escape(r.Launch.Hosts[i].Name))
	}
	secret.Within(&r) // as a node that is looked at today would tell it
	if r.Normalized {
		r.Fleet = agreement.LastingFleet(r.Fleet, r.Launch)
	}
	return r, nil
}

// readText reads a file to its end, or no more than the beginning of what is none of JSON: some
// have no end.
func readText(in io.Reader) ([]byte, error) {
	whole := bufio.NewReader(in)
	beginning, _ := whole.Peek(whole.Size()) // what is wrong shows where it is read
	if start := bytes.TrimSpace(beginning); len(start) > 0 && !strings.ContainsRune(`{["-0123456789tfn`, rune(start[0])) {
		return beginning, nil
	}
	text, err := io.ReadAll(io.LimitReader(whole, maxText+1))
	if err == nil && len(text) > maxText {
		err = fmt.Errorf("not a preflight report: larger than %d MiB", maxText>>20)
	}
	return text, err
}

// unitsOfValue is what a value that is held may have counted in the text, objects weighing
// more there.
const unitsOfValue = 4

// readNodes decodes the nodes, each held to what is taken of one, and all of them to most.
func (file *saved) readNodes(text []byte, most int) error {
	allowance := facts.Allowance(len(file.Nodes))
	read := func(raw json.RawMessage) (node facts.Node, err error) {
		if _, err := bounded.Check(raw, unitsOfValue*allowance); err != nil {
			return node, fmt.Errorf("a node has %w", err)
		}
		var whole struct{ Facts map[string]any }
		if err := errors.Join(json.Unmarshal(raw, &node), json.Unmarshal(raw, &whole)); err != nil {
			return node, err
		}
		node.Unrecorded = facts.Unrecorded(whole.Facts)
		most -= node.Hold(min(allowance, most))
		return node, nil
	}
	if file.Head != nil && string(file.Head) != "null" {
		head, err := read(file.Head)
		if err != nil {
			return within(err, "head", bytes.Index(text, file.Head))
		}
		file.Report.Head = &head
	}
	file.Report.Nodes = make([]facts.Node, 0, len(file.Nodes))
	return eachNode(text, func(raw json.RawMessage, at int) error {
		node, err := read(raw)
		file.Report.Nodes = append(file.Report.Nodes, node)
		return within(err, "nodes", at)
	})
}

// eachNode yields the nodes that a report's text lists, and where each begins.
func eachNode(text []byte, yield func(raw json.RawMessage, at int) error) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	_, err := decoder.Token()
	for err == nil && decoder.More() {
		var key json.Token
		if key, err = decoder.Token(); err != nil {
			break
		}
		if name, _ := key.(string); !strings.EqualFold(name, "nodes") {
			err = decoder.Decode(&passed{})
			continue
		}
		list, failed := decoder.Token()
		for err = failed; err == nil && list != nil && decoder.More(); {
			var raw json.RawMessage
			if err = decoder.Decode(&raw); err == nil {
				err = yield(raw, int(decoder.InputOffset())-len(raw))
			}
		}
		if err == nil && list != nil {
			_, err = decoder.Token()
		}
	}
	return err
}

// within is what was wrong with a part of a text, with its place in the whole.
func within(err error, path string, at int) error {
	wrong, is := errors.AsType[*json.UnmarshalTypeError](err)
	if !is {
		return err
	}
	wrong.Offset, wrong.Field = wrong.Offset+int64(at), strings.TrimSuffix(path+"."+wrong.Field, ".")
	return wrong
}

// plain says in words for a person what the decoder stumbled over, and in which line of the
// text; other errors as they are.
func plain(err error, text []byte) error {
	line := func(offset int64) int { return 1 + bytes.Count(text[:min(offset, int64(len(text)))], []byte("\n")) }
	if len(bytes.TrimSpace(text)) == 0 {
		return errors.New("it is empty")
	}
	if wrong, is := errors.AsType[*json.SyntaxError](err); is {
		switch {
		case strings.HasPrefix(wrong.Error(), "unexpected end"):
			return fmt.Errorf("truncated in line %d", line(wrong.Offset))
		case strings.HasSuffix(wrong.Error(), "after top-level value"):
			end := bytes.TrimRight(text[:wrong.Offset-1], " \t\r\n")
			return fmt.Errorf("unexpected text after its end in line %d", line(int64(len(end))))
		}
		return fmt.Errorf("line %d: %w", line(wrong.Offset-1), err)
	}
	if wrong, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		field := cmp.Or(strings.TrimPrefix(wrong.Field, "Fleet."), "the whole")
		return fmt.Errorf("line %d: %s has the wrong type: %s", line(wrong.Offset-1), field, wrong.Value)
	}
	return err
}
