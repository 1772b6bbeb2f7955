package facts

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// Comparable turns the facts of one node into path → value, leaving out what
// is volatile or rightly a node's own. Paths are the JSON names joined by dots
// ("python.packages.protobuf", "net.interfaces.eth0.mtu"); values are JSON.
//
// A nil map entry never occurs: what a node does not have is not in the map,
// and whoever compares counts that absence as a value.
func (f Facts) Comparable() map[string]string {
	out := map[string]string{}
	for section := range fieldOf {
		f.EachComparable(section, func(path, value string) { out[path] = value })
	}
	return out
}

// EachComparable visits what Comparable returns of a section, in no order worth relying
// on. It is for comparing fleets so large that a map for each node would not do.
func (f *Facts) EachComparable(s Section, visit func(path, value string)) {
	flatten(visit, string(s), f.section(s), "")
}

func flatten(visit func(path, value string), path string, v reflect.Value, tag string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			flatten(visit, path, v.Elem(), tag)
		}
	case reflect.Struct:
		for _, field := range comparedFields(v.Type()) {
			flatten(visit, join(path, field.name), v.Field(field.index), field.tag)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			flatten(visit, join(path, key.String()), v.MapIndex(key), "")
		}
	case reflect.Slice:
		key, keyed := strings.CutPrefix(tag, "key=")
		if !keyed {
			if v.Len() > 0 {
				visit(path, encode(v))
			}
			return
		}
		for i := range v.Len() {
			flatten(visit, join(path, keyOf(v.Index(i), key)), v.Index(i), "")
		}
	default:
		visit(path, encode(v))
	}
}

// keyOf is the value of the list entry's field with the JSON name key.
func keyOf(entry reflect.Value, key string) string {
	return fmt.Sprint(entry.FieldByIndex(keyField(entry.Type(), key)).Interface())
}

// keyedBy is a kind of list entry and the JSON name of the field it is known by.
type keyedBy struct {
	kind reflect.Type
	key  string
}

var keyFields sync.Map // keyedBy → []int, a field's index

// keyField finds a field by its JSON name, also one of an embedded struct. As
// with comparedFields, reading tags is most of the work, and done once.
func keyField(kind reflect.Type, key string) []int {
	if known, ok := keyFields.Load(keyedBy{kind, key}); ok {
		return known.([]int)
	}
	for _, field := range reflect.VisibleFields(kind) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name == key {
			keyFields.Store(keyedBy{kind, key}, field.Index)
			return field.Index
		}
	}
	panic("facts: " + kind.Name() + " has no field " + key)
}

// join appends a name to a path; an embedded struct has none, as in JSON.
func join(path, name string) string {
	if path == "" || name == "" {
		return path + name
	}
	return path + "." + name
}

// encode is the value as JSON. Fleets are large and most facts are short and
// plain, so those do without the general encoder.
func encode(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.Int, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.String:
		if text := v.String(); !strings.ContainsFunc(text, needsEscape) {
			return `"` + text + `"`
		}
	}
	text, err := json.Marshal(v.Interface())
	if err != nil {
		panic("facts: " + err.Error()) // plain values always encode
	}
	return string(text)
}

func needsEscape(r rune) bool {
	return r < ' ' || r > '~' || strings.ContainsRune(`"\<>&`, r)
}

// comparedField is a field of a struct that takes part in comparisons.
type comparedField struct {
	index     int
	name, tag string
}

var fieldsOfType sync.Map // reflect.Type → []comparedField

// comparedFields are the fields of a struct that are neither a node's own nor
// volatile. Reading tags is most of the work of flattening, so it is done once.
func comparedFields(kind reflect.Type) []comparedField {
	if known, ok := fieldsOfType.Load(kind); ok {
		return known.([]comparedField)
	}
	var fields []comparedField
	for i := range kind.NumField() {
		field := kind.Field(i)
		tag := field.Tag.Get("fact")
		if tag == "own" || tag == "volatile" {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		fields = append(fields, comparedField{i, name, tag})
	}
	fieldsOfType.Store(kind, fields)
	return fields
}
