package facts

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
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

// EachEntry visits every entry of a section's lists that are matched by a field
// (`fact:"key=…"`) by its path ("net.interfaces.eth0", "nvml.cards.0"), an outer one
// before those inside it. Whoever compares needs it to tell an entry that came or went
// from one whose values changed.
func (f *Facts) EachEntry(s Section, visit func(path string)) {
	entries(visit, string(s), f.section(s), "")
}

func entries(visit func(path string), path string, v reflect.Value, tag string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			entries(visit, path, v.Elem(), tag)
		}
	case reflect.Struct:
		for _, field := range comparedFields(v.Type()) {
			entries(visit, join(path, field.name), v.Field(field.index), field.tag)
		}
	case reflect.Slice:
		key, keyed := strings.CutPrefix(tag, "key=")
		if !keyed {
			return
		}
		for i := range v.Len() {
			at := join(path, keyOf(v.Index(i), key))
			visit(at)
			entries(visit, at, v.Index(i), "")
		}
	}
}

// Kind is what the values of a fact are.
type Kind string

const (
	Text   Kind = "text"
	Number Kind = "number"
	Truth  Kind = "true or false"
	List   Kind = "list" // compared as a whole
)

// Description is one fact that Comparable gives. In Path, "*" stands where entries
// of lists and maps have their names: "net.interfaces.*.mtu". Unit is as [Unit]'s.
type Description struct {
	Path string
	Kind Kind
	Unit string
}

// Described lists every fact that can be compared, sorted by path.
func Described() []Description {
	var all []Description
	for section, field := range fieldOf {
		describe(&all, string(section), reflect.TypeFor[Facts]().Field(field).Type, "", "")
	}
	slices.SortFunc(all, func(a, b Description) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// describe walks a type as flatten walks its values.
func describe(all *[]Description, path string, t reflect.Type, tag, unit string) {
	kind := Number
	switch t.Kind() {
	case reflect.Pointer:
		describe(all, path, t.Elem(), tag, unit)
		return
	case reflect.Struct:
		for _, field := range comparedFields(t) {
			own := t.Field(field.index)
			describe(all, join(path, field.name), own.Type, field.tag, cmp.Or(own.Tag.Get("unit"), unit))
		}
		return
	case reflect.Map:
		describe(all, join(path, "*"), t.Elem(), "", unit)
		return
	case reflect.Slice:
		if strings.HasPrefix(tag, "key=") {
			describe(all, join(path, "*"), t.Elem(), "", unit)
			return
		}
		kind = List
	case reflect.String:
		kind = Text
	case reflect.Bool:
		kind = Truth
	}
	*all = append(*all, Description{Path: path, Kind: kind, Unit: unit})
}
