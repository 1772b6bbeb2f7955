// SPDX-License-Identifier: Apache-2.0

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
	walk(string(s), f.section(s), nil, comparedFields, func(path string, v reflect.Value) { visit(path, encode(v)) }, func(string) {})
}

// EachOwn visits what is rightly a node's own in a section and lasts, each by its path as in
// Comparable: the same node has the same at any time, until somebody changes it.
func (f *Facts) EachOwn(s Section, visit func(path, value string)) {
	walk(string(s), f.section(s), nil, ownFields, func(path string, v reflect.Value) { visit(path, encode(v)) }, func(string) {})
}

// EachEntry visits every entry of a section's lists that are matched by a field
// (`fact:"key=…"`) by its path ("net.interfaces.eth0", "nvml.cards.0"), an outer one
// before those inside it. Whoever compares needs it to tell an entry that came or went
// from one whose values changed.
func (f *Facts) EachEntry(s Section, visit func(path string)) {
	walk(string(s), f.section(s), nil, comparedFields, func(string, reflect.Value) {}, visit)
}

// walk visits the values of some fields and the entries of keyed lists. key is as a
// comparedField's.
func walk(path string, v reflect.Value, key []int, fields fieldsOf, value func(path string, v reflect.Value), entry func(path string)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			walk(path, v.Elem(), key, fields, value, entry)
		}
	case reflect.Struct:
		for _, field := range fields(v.Type()) {
			walk(join(path, field.name), v.Field(field.index), field.key, fields, value, entry)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			walk(join(path, key.String()), v.MapIndex(key), nil, fields, value, entry)
		}
	case reflect.Slice:
		if key == nil && v.Len() > 0 {
			value(path, v)
		}
		for i := 0; key != nil && i < v.Len(); i++ {
			at := join(path, fmt.Sprint(v.Index(i).FieldByIndex(key).Interface()))
			entry(at)
			walk(at, v.Index(i), nil, fields, value, entry)
		}
	default:
		value(path, v)
	}
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
	index int
	name  string
	key   []int // of a list matched by a field: where an entry has that field
}

// fieldsOf are those fields of a struct that a walk goes into.
type fieldsOf func(reflect.Type) []comparedField

// comparedFields are those that are neither a node's own nor volatile. Reading tags is
// most of the work of a walk, so it is done once.
var comparedFields = remembered(func(field reflect.StructField) bool { return comparison(field) == "" })

// ownFields are those that are a node's own and last, and those that may hold such.
var ownFields = remembered(isOwn)

func isOwn(field reflect.StructField) bool {
	switch comparison(field) {
	case "own":
		return lasts(field)
	case "":
		kind := field.Type
		for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Map || isKeyed(field) && kind.Kind() == reflect.Slice {
			kind = kind.Elem()
		}
		return kind.Kind() == reflect.Struct && slices.ContainsFunc(reflect.VisibleFields(kind), isOwn)
	}
	return false
}

func isKeyed(field reflect.StructField) bool { return strings.HasPrefix(field.Tag.Get("fact"), "key=") }

// comparison is what a field's tag says of how it compares: "" where nodes should be alike.
func comparison(field reflect.StructField) string {
	if tag := field.Tag.Get("fact"); tag == "own" || tag == "volatile" {
		return tag
	}
	return ""
}

func remembered(taken func(reflect.StructField) bool) fieldsOf {
	var known sync.Map // reflect.Type → []comparedField
	return func(kind reflect.Type) []comparedField {
		if fields, met := known.Load(kind); met {
			return fields.([]comparedField)
		}
		var fields []comparedField
		for i := range kind.NumField() {
			field := kind.Field(i)
			if !taken(field) {
				continue
			}
			compared := comparedField{index: i, name: jsonName(field)}
			if key, keyed := strings.CutPrefix(field.Tag.Get("fact"), "key="); keyed {
				entry := reflect.VisibleFields(field.Type.Elem())
				compared.key = entry[slices.IndexFunc(entry, func(f reflect.StructField) bool { return jsonName(f) == key })].Index
			}
			fields = append(fields, compared)
		}
		known.Store(kind, fields)
		return fields
	}
}

func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
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
	return described(comparedFields, Sections())
}

// DescribedOwn lists every fact that EachOwn gives of what tells of more than one moment or
// launch, sorted by path.
func DescribedOwn() []Description {
	lasting := slices.DeleteFunc(Sections(), func(section Section) bool { return slices.Contains(Momentary, section) })
	return described(ownFields, lasting)
}

func described(fields fieldsOf, sections []Section) []Description {
	var all []Description
	for _, section := range sections {
		describe(&all, string(section), reflect.TypeFor[Facts]().Field(fieldOf[section]).Type, fields, false, "")
	}
	slices.SortFunc(all, func(a, b Description) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// describe goes through a type as walk does through its values.
func describe(all *[]Description, path string, t reflect.Type, fields fieldsOf, keyed bool, unit string) {
	kind := Number
	switch t.Kind() {
	case reflect.Pointer:
		describe(all, path, t.Elem(), fields, keyed, unit)
		return
	case reflect.Struct:
		for _, field := range fields(t) {
			own := t.Field(field.index)
			describe(all, join(path, field.name), own.Type, fields, field.key != nil, cmp.Or(own.Tag.Get("unit"), unit))
		}
		return
	case reflect.Map:
		describe(all, join(path, "*"), t.Elem(), fields, false, unit)
		return
	case reflect.Slice:
		if keyed {
			describe(all, join(path, "*"), t.Elem(), fields, false, unit)
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

// Keys are the lists whose entries are matched by a field, by their paths as a Description's,
// each with that field's name in JSON.
func Keys() map[string]string {
	keys := map[string]string{}
	for _, section := range Sections() {
		keysBelow(string(section), reflect.TypeFor[Facts]().Field(fieldOf[section]).Type, keys)
	}
	return keys
}

func keysBelow(path string, t reflect.Type, keys map[string]string) {
	switch t.Kind() {
	case reflect.Pointer:
		keysBelow(path, t.Elem(), keys)
	case reflect.Slice, reflect.Map:
		keysBelow(join(path, "*"), t.Elem(), keys)
	case reflect.Struct:
		for _, compared := range comparedFields(t) {
			field := t.Field(compared.index)
			at := join(path, compared.name)
			if key, keyed := strings.CutPrefix(field.Tag.Get("fact"), "key="); keyed {
				keys[at] = key
			}
			keysBelow(at, field.Type, keys)
		}
	}
}
