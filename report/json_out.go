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
	frame, err := json.MarshalIndent(withoutLists(reflect.ValueOf(r), lists), "", indent)
	if err != nil {
		return err
	}
	w = jsonGuard{w}
	for line := range bytes.Lines(append(frame, '\n')) {
		text, comma := strings.CutSuffix(strings.TrimSuffix(string(line), "\n"), ",")
		list, emptied := lists[text]
		if !emptied {
			if _, err := w.Write(line); err != nil {
				return err
			}
			continue
		}
		if err := writeList(w, strings.TrimSuffix(text, "]"), list, comma); err != nil {
			return err
		}
	}
	return nil
}

func writeList(w io.Writer, opening string, list reflect.Value, comma bool) error {
	if _, err := fmt.Fprintln(w, opening); err != nil {
		return err
	}
	for i := range list.Len() {
		entry, err := json.MarshalIndent(list.Index(i).Addr().Interface(), indent+indent, indent)
		if err != nil {
			return err
		}
		if i < list.Len()-1 {
			entry = append(entry, ',')
		}
		if _, err := fmt.Fprintf(w, indent+indent+"%s\n", entry); err != nil {
			return err
		}
	}
	closing := indent + "]"
	if comma {
		closing += ","
	}
	_, err := fmt.Fprintln(w, closing)
	return err
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
