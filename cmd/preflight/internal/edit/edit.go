// SPDX-License-Identifier: Apache-2.0

// Package edit changes values in a JSON text and leaves every other byte as it is, however the
// text was laid out.
//
// It refuses to check the text: whoever calls has read it already.
package edit

import (
	"bytes"
	"encoding/json"
	"slices"
)

// Value is one value of a text: an object, a list, or what is written as it stands.
type Value struct {
	raw     []byte // of a plain value
	bracket byte   // '{', '[' or 0
	Entries []Entry
	tail    []byte // before the closing bracket
}

// Entry is one member of an object or one entry of a list, with what stands around it.
type Entry struct {
	lead, colon, gap []byte // before the key, around the colon, before the comma
	Key              string // "" in a list
	key              []byte
	Value            *Value
}

// Parse reads a JSON text.
func Parse(text []byte) *Value {
	r := reader{text: text}
	r.blank()
	return r.value()
}

type reader struct {
	text []byte
	at   int
}

func (r *reader) blank() []byte {
	from := r.at
	for r.at < len(r.text) && bytes.IndexByte([]byte(" \t\r\n"), r.text[r.at]) >= 0 {
		r.at++
	}
	return r.text[from:r.at]
}

func (r *reader) value() *Value {
	open := r.text[r.at]
	if open != '{' && open != '[' {
		return &Value{raw: r.plain()}
	}
	v := &Value{bracket: open}
	r.at++
	for {
		lead := r.blank()
		if c := r.text[r.at]; c == '}' || c == ']' {
			r.at++
			v.tail = lead
			if n := len(v.Entries); n > 0 { // what follows the last entry is not its own
				v.Entries[n-1].gap, v.tail = nil, v.Entries[n-1].gap
			}
			return v
		}
		e := Entry{lead: lead}
		if open == '{' {
			e.key = r.plain()
			e.Key = unquoted(e.key)
			from := r.at
			r.blank()
			r.at++ // the colon
			r.blank()
			e.colon = r.text[from:r.at]
		}
		e.Value = r.value()
		e.gap = r.blank()
		if r.text[r.at] == ',' {
			r.at++
		}
		v.Entries = append(v.Entries, e)
	}
}

func (r *reader) plain() []byte {
	from := r.at
	if r.text[r.at] != '"' {
		for r.at < len(r.text) && bytes.IndexByte([]byte(" \t\r\n,:]}"), r.text[r.at]) < 0 {
			r.at++
		}
		return r.text[from:r.at]
	}
	for r.at++; r.text[r.at] != '"'; r.at++ {
		if r.text[r.at] == '\\' {
			r.at++
		}
	}
	r.at++
	return r.text[from:r.at]
}

func unquoted(text []byte) string {
	var word string
	if json.Unmarshal(text, &word) == nil {
		return word
	}
	return string(text)
}

// Text is the value as it was written, and as it has been changed.
func (v *Value) Text() []byte {
	if v.bracket == 0 {
		return v.raw
	}
	out := []byte{v.bracket}
	for i, e := range v.Entries {
		out = append(out, e.lead...)
		out = append(out, e.key...)
		out = append(out, e.colon...)
		out = append(out, e.Value.Text()...)
		out = append(out, e.gap...)
		if i < len(v.Entries)-1 {
			out = append(out, ',')
		}
	}
	out = append(out, v.tail...)
	return append(out, v.bracket+2) // } and ] stand two behind { and [
}

// Plain is a text, a number or a word without its quotation marks; "" for an object or a list.
func (v *Value) Plain() string { return unquoted(v.raw) }

// Of is the entry of an object by its key, or of a list by what its entries have under a key
// that tells them apart, -1 where there is none. Of several the last one counts, as for
// whoever reads the text.
func (v *Value) Of(name, by string) int {
	for i, e := range slices.Backward(v.Entries) {
		if e.name(by) == name {
			return i
		}
	}
	return -1
}

func (e Entry) name(by string) string {
	if by == "" {
		return e.Key
	}
	if at := e.Value.Of(by, ""); at >= 0 {
		return e.Value.Entries[at].Value.Plain()
	}
	return ""
}

// Names are what Of finds entries by.
func (v *Value) Names(by string) (names []string) {
	for _, e := range v.Entries {
		names = append(names, e.name(by))
	}
	return names
}

// Holds is whether it is an object or a list.
func (v *Value) Holds() bool { return v.bracket != 0 }

// Take makes an entry what it is in another text of the same layout: as it is there, not at
// all, or new, behind what it stands behind there.
func (v *Value) Take(name, by string, from *Value) {
	mine, theirs := v.Of(name, by), from.Of(name, by)
	switch {
	case theirs < 0 && mine >= 0:
		v.Entries = slices.DeleteFunc(v.Entries, func(e Entry) bool { return e.name(by) == name })
		if len(v.Entries) == 0 {
			v.tail = nil
		}
	case theirs >= 0 && mine >= 0:
		v.Entries[mine].Value = from.Entries[theirs].Value
	case theirs >= 0:
		at := 0
		for before := theirs - 1; before >= 0 && at == 0; before-- {
			at = v.Of(from.Entries[before].name(by), by) + 1
		}
		entry := from.Entries[theirs]
		if len(v.Entries) == 0 {
			v.tail = from.tail
		}
		v.Entries = slices.Insert(v.Entries, at, entry)
	}
}
