// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// fieldOf maps each section to the field of Facts that has the same JSON name.
var fieldOf = func() map[Section]reflect.StructField {
	fields := map[Section]reflect.StructField{}
	for of := range reflect.TypeFor[Facts]().Fields() {
		name, _, _ := strings.Cut(of.Tag.Get("json"), ",")
		fields[Section(name)] = of
	}
	return fields
}()

// Sections returns all sections, sorted.
func Sections() []Section { return slices.Sorted(maps.Keys(fieldOf)) }

// section returns the field of Facts for a section. The section must exist.
func (f *Facts) section(s Section) reflect.Value {
	return reflect.ValueOf(f).Elem().FieldByIndex(fieldOf[s].Index)
}

// Has reports whether the facts contain the section.
func (f *Facts) Has(s Section) bool {
	_, known := fieldOf[s]
	return known && !f.section(s).IsNil()
}

// Take copies one section from another set of facts into f.
func (f *Facts) Take(s Section, from Facts) {
	if _, known := fieldOf[s]; known {
		f.section(s).Set(from.section(s))
	}
}

// field is a section, a field below it, or the common properties of the entries of a list or a map.
// It stores what the types and tags say, so that a walk does not read them again.
type field struct {
	Description
	name  string   // JSON name; "*" for entries
	names []string // the names on the field's path
	index []int    // position in the field's struct
	below []*field // the fields of a struct, or the single entry field of a list or a map
	by    string   // the JSON name of the field that is the key of a list's entries, "" for no key
	key   []int    // for an entry with a key: the position of the key in the entry

	compared bool // similar nodes should have the same value
	own      bool // the value differs from node to node, and lasts
	lasts    bool // the value stays the same until somebody changes the node
	recorded bool // a saved node has the field if it has the object that holds the field
	optional bool // JSON omits the field if it is empty
}

// plan returns the field of each section, and a list of all fields. In the list, a field comes
// before the fields below it.
var plan = sync.OnceValues(func() (sections map[Section]*field, all []*field) {
	top := &field{compared: true, lasts: true, recorded: true}
	top.add(reflect.TypeFor[Facts](), nil, &all)
	sections = map[Section]*field{}
	for _, section := range top.below {
		sections[Section(section.name)] = section
	}
	return sections, all
})

// add adds the fields of type t below f. If a struct contains its own type, as a rendezvous
// contains the next one, add enters the struct only twice.
func (f *field) add(t reflect.Type, within []reflect.Type, all *[]*field) {
	put := func(below field, t reflect.Type) {
		below.names = append(slices.Clip(f.names), below.name)
		below.Path = strings.Join(below.names, ".")
		f.below, *all = append(f.below, &below), append(*all, &below)
		below.add(t, within, all)
	}
	entry := field{Description: Description{Unit: f.Unit}, name: "*", compared: f.compared, own: f.own, lasts: f.lasts}
	switch t.Kind() {
	case reflect.Pointer:
		f.add(t.Elem(), within, all)
	case reflect.Struct:
		if at := slices.Index(within, t); at >= 0 && slices.Contains(within[at+1:], t) {
			return
		}
		within = append(slices.Clip(within), t)
		for _, of := range reflect.VisibleFields(t) {
			if below := f.holding(of); below.name != "" { // an embedded struct has no name; its fields are visited by themselves
				put(below, of.Type)
			}
		}
	case reflect.Map:
		put(entry, t.Elem())
	case reflect.Slice:
		entry.compared, entry.own = false, false
		if f.by == "" {
			f.Kind = List
		} else {
			keys := reflect.VisibleFields(t.Elem())
			entry.key = keys[slices.IndexFunc(keys, func(of reflect.StructField) bool { return f.holding(of).name == f.by })].Index
			entry.compared, entry.own, entry.recorded = f.compared, f.own, f.recorded
		}
		put(entry, t.Elem())
	case reflect.String:
		f.Kind = Text
	case reflect.Bool:
		f.Kind = Truth
	default:
		f.Kind = Number
	}
}

// holding returns the field that describes the struct field of.
func (f *field) holding(of reflect.StructField) field {
	name, options, _ := strings.Cut(of.Tag.Get("json"), ",")
	fact, lasting := of.Tag.Get("fact"), of.Tag.Get("lasting")
	by, keyed := strings.CutPrefix(fact, "key=")
	if !keyed {
		by = ""
	}
	compared := fact == "" || keyed
	lasts := lasting == "yes" || lasting == "" && fact != "volatile"
	return field{
		Description: Description{Unit: cmp.Or(of.Tag.Get("unit"), f.Unit)},
		name:        name, index: of.Index, by: by,
		compared: f.compared && compared,
		own:      (f.compared || f.own) && fact == "own" && lasts,
		lasts:    f.lasts && lasts,
		recorded: f.recorded && (compared || fact == "own" && lasts),
		optional: options == "omitempty",
	}
}

// walk visits the value of a field, and then the values below it whose fields taken accepts. The
// paths contain the names of entries.
func (f *field) walk(path string, v reflect.Value, taken func(*field) bool, visit func(f *field, path string, v reflect.Value)) {
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if !v.IsValid() { // nil
		return
	}
	visit(f, path, v)
	for _, below := range f.below {
		switch {
		case !taken(below):
		case v.Kind() == reflect.Struct:
			below.walk(join(path, below.name), v.FieldByIndex(below.index), taken, visit)
		case v.Kind() == reflect.Map:
			for _, key := range v.MapKeys() {
				below.walk(join(path, key.String()), v.MapIndex(key), taken, visit)
			}
		default:
			for i := range v.Len() {
				entry := v.Index(i)
				below.walk(join(path, fmt.Sprint(entry.FieldByIndex(below.key))), entry, taken, visit)
			}
		}
	}
}

// join appends a name to a path. An entry with an empty key adds nothing.
func join(path, name string) string {
	if path == "" || name == "" {
		return path + name
	}
	return path + "." + name
}

// EachComparable visits the facts of a section that nodes should share, in no fixed order. Paths
// are the JSON names joined by dots ("python.packages.protobuf", "net.interfaces.eth0.mtu"). Values
// are JSON. EachComparable does not visit what a node lacks, so a comparison must treat a missing
// path as a value.
func (f *Facts) EachComparable(s Section, visit func(path, value string)) {
	f.eachValue(s, visit, func(at *field) bool { return at.compared })
}

// EachOwn visits the lasting facts of a section that may differ from node to node. Paths and values
// have the same form as in EachComparable. On one node these facts stay the same until somebody
// changes the node.
func (f *Facts) EachOwn(s Section, visit func(path, value string)) {
	f.eachValue(s, visit, func(at *field) bool { return at.own || at.compared && at.Kind == "" })
}

func (f *Facts) eachValue(s Section, visit func(path, value string), taken func(*field) bool) {
	f.walk(s, taken, func(at *field, path string, v reflect.Value) {
		if at.Kind != "" && (at.Kind != List || v.Len() > 0) {
			visit(path, encode(v))
		}
	})
}

// EachEntry visits every entry of those lists of a section whose entries are matched by a field
// (`fact:"key=…"`). It passes the entry's path ("net.interfaces.eth0", "nvml.cards.0"). An outer
// entry comes before the entries inside it. With it a comparison can distinguish a new or removed
// entry from an entry whose values changed.
func (f *Facts) EachEntry(s Section, visit func(path string)) {
	f.walk(s, func(at *field) bool { return at.compared }, func(at *field, path string, _ reflect.Value) {
		if at.key != nil {
			visit(path)
		}
	})
}

func (f *Facts) walk(s Section, taken func(*field) bool, visit func(*field, string, reflect.Value)) {
	sections, _ := plan()
	sections[s].walk(string(s), f.section(s), taken, visit)
}

// encode returns the value as JSON. Fleets are large and most facts are short and simple, so encode
// handles those without the general encoder.
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
		panic("facts: " + err.Error()) // encoding plain values never fails
	}
	return string(text)
}

func needsEscape(r rune) bool {
	return r < ' ' || r > '~' || strings.ContainsRune(`"\<>&`, r)
}

// Same reports whether a section is exactly the same in both.
func (f *Facts) Same(other *Facts, s Section) bool {
	return reflect.DeepEqual(f.section(s).Interface(), other.section(s).Interface())
}

// Alike reports whether EachComparable visits the same paths and values in a section of two nodes.
// It does not build paths and values, so it costs a small part of a walk. Most machines of a fleet
// are alike. Alike may also return false if only the order of a list differs.
func (f *Facts) Alike(other *Facts, s Section) bool {
	sections, _ := plan()
	return sections[s].alike(f.section(s), other.section(s))
}

// alike compares two values in parallel, in the same way as walk visits one value.
func (f *field) alike(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() || a.UnsafePointer() == b.UnsafePointer() {
			return a.UnsafePointer() == b.UnsafePointer()
		}
		return f.alike(a.Elem(), b.Elem())
	case reflect.Struct:
		for _, below := range f.below {
			counts := below.compared || !f.compared // everything in a list that is compared as a whole counts
			if counts && !below.alike(a.FieldByIndex(below.index), b.FieldByIndex(below.index)) {
				return false
			}
		}
		return true
	case reflect.Map:
		if texts, plain := a.Interface().(map[string]string); plain {
			return maps.Equal(texts, b.Interface().(map[string]string))
		}
		return reflect.DeepEqual(a.Interface(), b.Interface())
	case reflect.Slice:
		same := a.Len() == b.Len()
		for i := 0; same && i < a.Len(); i++ {
			same = f.below[0].alike(a.Index(i), b.Index(i))
		}
		return same
	}
	return a.Equal(b)
}
