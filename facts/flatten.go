package facts

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Comparable turns the facts of one node into path → value, leaving out what
// is volatile or rightly a node's own. Paths are the JSON names joined by dots
// ("python.packages.protobuf", "net.interfaces.eth0.mtu"); values are JSON.
//
// A nil map entry never occurs: what a node does not have is not in the map,
// and whoever compares counts that absence as a value.
func (f Facts) Comparable() map[string]string {
	out := map[string]string{}
	flatten(out, "", reflect.ValueOf(f), "")
	return out
}

func flatten(out map[string]string, path string, v reflect.Value, tag string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			flatten(out, path, v.Elem(), tag)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			tag := field.Tag.Get("fact")
			if tag == "own" || tag == "volatile" {
				continue
			}
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			flatten(out, join(path, name), v.Field(i), tag)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			flatten(out, join(path, key.String()), v.MapIndex(key), "")
		}
	case reflect.Slice:
		key, keyed := strings.CutPrefix(tag, "key=")
		if !keyed {
			if v.Len() > 0 {
				out[path] = encode(v)
			}
			return
		}
		for i := range v.Len() {
			flatten(out, join(path, keyOf(v.Index(i), key)), v.Index(i), "")
		}
	default:
		out[path] = encode(v)
	}
}

// keyOf is the value of the list entry's field with the JSON name key.
func keyOf(entry reflect.Value, key string) string {
	for i := range entry.NumField() {
		name, _, _ := strings.Cut(entry.Type().Field(i).Tag.Get("json"), ",")
		if name == key {
			return fmt.Sprint(entry.Field(i).Interface())
		}
	}
	panic("facts: " + entry.Type().Name() + " has no field " + key)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func encode(v reflect.Value) string {
	text, err := json.Marshal(v.Interface())
	if err != nil {
		panic("facts: " + err.Error()) // plain values always encode
	}
	return string(text)
}
