package facts

import (
	"maps"
	"reflect"
	"strings"
)

// Alike is whether a section of two nodes has the same comparable facts, without
// making any: it costs a small part of what flattening does, and most machines of a
// fleet are alike. False may also mean that a list is in another order.
func (f *Facts) Alike(other *Facts, s Section) bool {
	return alike(f.section(s), other.section(s), "")
}

// alike walks two values as flatten does one.
func alike(a, b reflect.Value, tag string) bool {
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() && b.IsNil()
		}
		return alike(a.Elem(), b.Elem(), tag)
	case reflect.Struct:
		for _, field := range comparedFields(a.Type()) {
			if !alike(a.Field(field.index), b.Field(field.index), field.tag) {
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
		if strings.HasPrefix(tag, "key=") {
			return alikeEntries(a, b)
		}
		return sameList(a, b)
	}
	return sameValue(a, b)
}

// alikeEntries compares lists whose entries are known by a field, itself compared.
func alikeEntries(a, b reflect.Value) bool {
	if a.Len() != b.Len() {
		return false
	}
	for i := range a.Len() {
		if !alike(a.Index(i), b.Index(i), "") {
			return false
		}
	}
	return true
}

// sameList compares lists that are one value, of which flatten leaves nothing out.
func sameList(a, b reflect.Value) bool {
	if a.Len() != b.Len() {
		return false
	}
	for i := range a.Len() {
		if !sameValue(a.Index(i), b.Index(i)) {
			return false
		}
	}
	return true
}

// sameValue compares what has no parts to leave out, the common kinds first.
func sameValue(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.String:
		return a.String() == b.String()
	case reflect.Int, reflect.Int64:
		return a.Int() == b.Int()
	case reflect.Slice:
		return sameList(a, b)
	case reflect.Struct:
		return reflect.DeepEqual(a.Interface(), b.Interface())
	}
	return a.Equal(b)
}
