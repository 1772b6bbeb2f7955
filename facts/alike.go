package facts

import (
	"maps"
	"reflect"
)

// Alike is whether a section of two nodes has the same comparable facts, without
// making any: it costs a small part of what a walk does, and most machines of a
// fleet are alike. False may also mean that a list is in another order, or that one
// is empty and the other nil.
func (f *Facts) Alike(other *Facts, s Section) bool {
	return alike(f.section(s), other.section(s), false)
}

// alike goes through two values as walk does through one.
func alike(a, b reflect.Value, keyed bool) bool {
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() && b.IsNil()
		}
		return alike(a.Elem(), b.Elem(), keyed)
	case reflect.Struct:
		for _, field := range comparedFields(a.Type()) {
			if !alike(a.Field(field.index), b.Field(field.index), field.key != nil) {
				return false
			}
		}
		return true
	case reflect.Map, reflect.Slice:
		if texts, plain := a.Interface().(map[string]string); plain {
			return maps.Equal(texts, b.Interface().(map[string]string))
		}
		if !keyed {
			return reflect.DeepEqual(a.Interface(), b.Interface())
		}
		same := a.Len() == b.Len()
		for i := 0; same && i < a.Len(); i++ {
			same = alike(a.Index(i), b.Index(i), false)
		}
		return same
	}
	return a.Equal(b)
}
