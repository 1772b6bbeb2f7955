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
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/facts"
	"preflight/internal/secret"
)

// Encoder writes JSON without characters that could mislead a terminal, a person who reads the
// source or a CI runner.
func Encoder(w io.Writer) *json.Encoder { return json.NewEncoder(jsonGuard{w}) }

// jsonGuard escapes characters that encoding/json leaves alone: DEL, the C1 control characters,
// which terminals treat as escape sequences, and commands of CI runners. In JSON these occur only
// inside strings. Each call of Write must get whole values.
type jsonGuard struct{ to io.Writer }

func (g jsonGuard) Write(text []byte) (int, error) {
	out := make([]byte, 0, len(text))
	for at, r := range string(text) {
		switch {
		case r >= 0x7f && (r < 0xa0 || unicode.Is(unicode.Bidi_Control, r)), r == '#' && markStart.Match(text[at:]):
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	if _, err := g.to.Write(out); err != nil {
		return 0, err
	}
	return len(text), nil
}

// markStart matches a runner command at the start of a text, ##[NAME]. The comment of [text.Escape]
// names the sources.
var markStart = regexp.MustCompile(`^##\w*\[`)

// JSON writes a report in schema 1, indented as encoding/json does. It never holds the whole text
// in memory, because the text of a large fleet is many times larger than the facts. A snapshot has
// the same format.
func JSON[Report any](w io.Writer, r Report) error {
	err := jsonv2.MarshalWrite(jsonGuard{w}, r, jsonv1.DefaultOptionsV1(), jsontext.WithIndent(indent), digits)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, "\n")
	return err
}

const indent = " "

// digits writes each json.Number with all the digits that encoding/json has read.
var digits = jsonv2.WithMarshalers(jsonv2.MarshalToFunc(func(to *jsontext.Encoder, number json.Number) error {
	return to.WriteValue(jsontext.Value(number))
}))

// maxText is the size in bytes of the largest report that is read. It is several times the size of
// a report on ten thousand nodes with eight GPUs each, which takes 32 KB for each node, or more on
// larger machines.
const maxText = 1 << 30

// saved is a report in a file. The nodes also record which facts the file lacks.
type saved struct {
	checks.Report
	Head  *savedNode  `json:"head"`
	Nodes []savedNode `json:"nodes"`
}

type savedNode facts.Node

func (n *savedNode) UnmarshalJSON(text []byte) error {
	var whole struct{ Facts map[string]any }
	err := errors.Join(json.Unmarshal(text, (*facts.Node)(n)), json.Unmarshal(text, &whole))
	n.Unrecorded = facts.Unrecorded(whole.Facts)
	return err
}

// Read reads a report that JSON or [Normalized] wrote. If the file is no report, the error says
// what is wrong and in which line.
func Read(in io.Reader) (checks.Report, error) {
	var file saved
	content, err := readText(in)
	if err != nil {
		return file.Report, err
	}
	err = json.Unmarshal(content, &file)
	r := file.Report
	switch {
	case r.Schema > checks.Schema, err == nil && r.Schema != checks.Schema:
		return r, fmt.Errorf("its schema is %d, but this preflight reads schema %d", r.Schema, checks.Schema)
	case err != nil:
		err = cmp.Or(json.Unmarshal(content, &file.Report), err) // the first call counts lines from the beginning of the file
		return r, fmt.Errorf("not a preflight report: %w", plain(err, content))
	}
	r.Head, r.Nodes = (*facts.Node)(file.Head), make([]facts.Node, len(file.Nodes))
	for i, node := range file.Nodes {
		r.Nodes[i] = facts.Node(node)
	}
	secret.Within(&r) // remove secrets, as the current agent does before it sends facts
	if r.Normalized {
		r.Fleet = agreement.LastingFleet(r.Fleet, r.Launch)
	}
	return r, nil
}

// readText reads a file to its end. If the beginning is not JSON, readText reads no further,
// because some files never end.
func readText(in io.Reader) ([]byte, error) {
	whole := bufio.NewReader(in)
	beginning, _ := whole.Peek(whole.Size()) // the next read reports any error
	if start := bytes.TrimSpace(beginning); len(start) > 0 && !strings.ContainsRune(`{["-0123456789tfn`, rune(start[0])) {
		return beginning, nil
	}
	text, err := io.ReadAll(io.LimitReader(whole, maxText+1))
	if err == nil && len(text) > maxText {
		err = fmt.Errorf("not a preflight report: larger than %d MiB", maxText>>20)
	}
	return text, err
}

// plain describes a decoding error for a person, with its line in the text. It returns other errors
// unchanged.
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
