// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"unsafe"
)

// Within hides secrets in every text of a value, including values that it points to and the keys of
// its maps. If a struct has the fields Name and Value, the Name decides whether the Value is a
// secret. The caller must own the whole value.
func Within[Value any](value *Value) {
	w := walk{}
	w.within(reflect.ValueOf(value).Elem())
}

// walk records visited values, so that a shared value is searched only once.
type walk map[visit]bool

type visit struct {
	at unsafe.Pointer
	as reflect.Type
}

func (w walk) within(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if text := v.String(); v.CanSet() {
			if hidden := Hide(text); hidden != text {
				v.SetString(hidden)
			}
		}
	case reflect.Pointer:
		if v.IsNil() || holdsNoText(v.Type().Elem().Kind()) {
			return
		}
		if here := (visit{v.UnsafePointer(), v.Type()}); !w[here] {
			w[here] = true
			w.within(v.Elem())
		}
	case reflect.Interface:
		if !v.IsNil() && v.CanSet() {
			held := reflect.New(v.Elem().Type()).Elem()
			held.Set(v.Elem())
			w.within(held)
			v.Set(held)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Field(i); field.CanSet() {
				w.within(field)
			}
		}
		withinSetting(v)
	case reflect.Slice, reflect.Array:
		if raw, is := v.Interface().(json.RawMessage); is {
			v.SetBytes(HideJSON(raw))
			return
		}
		if holdsNoText(v.Type().Elem().Kind()) {
			return
		}
		for i := range v.Len() {
			w.within(v.Index(i))
		}
	case reflect.Map:
		w.withinMap(v)
	}
}

// holdsNoText reports whether values of a kind contain no text.
func holdsNoText(kind reflect.Kind) bool { return kind >= reflect.Bool && kind <= reflect.Complex128 }

// withinSetting hides the value of a variable whose name belongs to a secret.
func withinSetting(v reflect.Value) {
	name, value := v.FieldByName("Name"), v.FieldByName("Value")
	if !name.IsValid() || !value.IsValid() || name.Kind() != reflect.String || value.Kind() != reflect.String || !value.CanSet() {
		return
	}
	if Named(name.String()) && !noSecret(value.String()) {
		value.SetString(Hidden)
	}
}

func (w walk) withinMap(v reflect.Value) {
	if v.Type().Key().Kind() != reflect.String && holdsNoText(v.Type().Elem().Kind()) {
		return
	}
	for _, key := range v.MapKeys() {
		newKey, value := reflect.New(key.Type()).Elem(), reflect.New(v.Type().Elem()).Elem()
		newKey.Set(key)
		value.Set(v.MapIndex(key))
		w.within(newKey)
		w.within(value)
		if !newKey.Equal(key) {
			v.SetMapIndex(key, reflect.Value{})
		}
		v.SetMapIndex(newKey, value)
	}
}

// HideJSON hides secrets in every text of a JSON value.
func HideJSON(text []byte) []byte {
	var out bytes.Buffer
	done := 0
	for i := 0; i < len(text); i++ {
		if text[i] != '"' {
			continue
		}
		from := i
		for i++; i < len(text) && text[i] != '"'; i++ {
			if text[i] == '\\' {
				i++
			}
		}
		if i >= len(text) {
			break // the text is not JSON
		}
		plain := string(text[from+1 : i])
		if strings.Contains(plain, `\`) && json.Unmarshal(text[from:i+1], &plain) != nil {
			continue
		}
		hidden := Hide(plain)
		if hidden == plain {
			continue
		}
		encoded, err := json.Marshal(hidden)
		if err != nil {
			encoded = []byte(strconv.Quote(Hidden))
		}
		out.Write(text[done:from])
		out.Write(encoded)
		done = i + 1
	}
	if done == 0 {
		return text
	}
	out.Write(text[done:])
	return out.Bytes()
}
