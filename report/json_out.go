// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
)

const indent = " "

// JSON writes a report in schema 1. Snapshots are the same file.
//
// It is what [json.MarshalIndent] makes of it, and never whole in memory: the lists of a
// report are written entry by entry, because what a fleet says is many times what is held
// of it.
func JSON[Report any](w io.Writer, r Report) error {
	lists := map[string]reflect.Value{} // by what stands for an empty one
	out := &jsonText{to: jsonGuard{w}}
	if err := out.add(withoutLists(reflect.ValueOf(r), lists), 0); err != nil {
		return err
	}
	frame := append(out.text, '\n')
	out.text = nil
	for line := range bytes.Lines(frame) {
		text, comma := strings.CutSuffix(strings.TrimSuffix(string(line), "\n"), ",")
		list, emptied := lists[text]
		if !emptied {
			out.text = append(out.text, line...)
			continue
		}
		out.text = append(out.text, strings.TrimSuffix(text, "]")...)
		if err := out.addList(list); err != nil {
			return err
		}
		out.text = append(out.text, "\n"+indent+"]"...)
		if comma {
			out.text = append(out.text, ',')
		}
		out.text = append(out.text, '\n')
	}
	return out.flush()
}

// jsonText is what is still to be written, and what is taken anew for the next part of it.
type jsonText struct {
	to      io.Writer
	text    []byte
	compact bytes.Buffer
}

// add is what [json.Indent] makes of a value, which would go through its text once more and
// byte by byte.
func (t *jsonText) add(value any, depth int) error {
	t.compact.Reset()
	if err := json.NewEncoder(&t.compact).Encode(value); err != nil {
		return err
	}
	t.text = appendIndented(t.text, t.compact.Bytes(), depth)
	return nil
}

func (t *jsonText) addList(list reflect.Value) error {
	for i := range list.Len() {
		if i > 0 {
			t.text = append(t.text, ',')
		}
		t.text = append(t.text, "\n"+indent+indent...)
		if err := t.add(list.Index(i).Addr().Interface(), 2); err != nil {
			return err
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	return nil
}

func (t *jsonText) flush() error {
	_, err := t.to.Write(t.text)
	t.text = t.text[:0]
	return err
}

// appendIndented breaks the lines of a text of encoding/json's, which is known to be JSON and
// has blanks in strings only.
func appendIndented(to, compact []byte, depth int) []byte {
	line := func(by int) {
		depth += by
		to = append(to, '\n')
		for range depth {
			to = append(to, indent...)
		}
	}
	for i := 0; i < len(compact); i++ {
		switch c := compact[i]; c {
		case '{', '[':
			to = append(to, c)
			if next := compact[i+1]; next == '}' || next == ']' { // empty
				to = append(to, next)
				i++
				continue
			}
			line(+1)
		case '}', ']':
			line(-1)
			to = append(to, c)
		case ',':
			to = append(to, c)
			line(0)
		case ':':
			to = append(to, ": "...)
		case '"':
			begin := i
			for i++; compact[i] != '"'; i++ {
				if compact[i] == '\\' {
					i++
				}
			}
			to = append(to, compact[begin:i+1]...)
		case '\n': // behind the whole
		default:
			to = append(to, c)
		}
	}
	return to
}

// withoutLists is a report whose own lists are empty where JSON shows those too, and notes
// what they had. Their line cannot be met elsewhere: what is deeper is indented more, and no
// text has a line break.
func withoutLists(r reflect.Value, lists map[string]reflect.Value) any {
	if r.Kind() != reflect.Struct {
		return r.Interface()
	}
	frame := reflect.New(r.Type()).Elem()
	frame.Set(r)
	for _, field := range reflect.VisibleFields(r.Type()) {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Type.Kind() != reflect.Slice || name == "" || name == "-" || options != "" {
			continue
		}
		list := frame.FieldByIndex(field.Index)
		if list.Len() == 0 || list.Type().Elem().Kind() == reflect.Uint8 {
			continue
		}
		lists[fmt.Sprintf("%s%q: []", indent, name)] = reflect.ValueOf(list.Interface())
		list.SetLen(0)
	}
	return frame.Interface()
}
