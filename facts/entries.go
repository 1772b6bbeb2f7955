package facts

import (
	"reflect"
	"strings"
)

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
