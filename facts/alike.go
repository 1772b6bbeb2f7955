// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"maps"
	"reflect"
)

// Alike is whether a section of two nodes has the same comparable facts, without
// making any: it costs a small part of what a walk does, and most machines of a
// fleet are alike. False may also mean that a list is in another order.
func (f *Facts) Alike(other *Facts, s Section) bool {
	return alike(f.section(s), other.section(s), false)
}

// alike goes through two values as walk does through one.
func alike(a, b reflect.Value, keyed bool) bool {
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() || a.UnsafePointer() == b.UnsafePointer() {
			return a.UnsafePointer() == b.UnsafePointer()
		}
		return alike(a.Elem(), b.Elem(), keyed)
	case reflect.Struct:
		for _, field := range comparedFields(a.Type()) {
			if !alike(a.Field(field.index), b.Field(field.index), field.key != nil) {
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
			same = alikeEntry(a.Index(i), b.Index(i), keyed)
		}
		return same
	}
	return a.Equal(b)
}

// alikeEntry compares entries of lists. Of those that are matched by a field some fields
// are left out, of others nothing.
func alikeEntry(a, b reflect.Value, keyed bool) bool {
	if kind := a.Kind(); !keyed && (kind == reflect.Struct || kind == reflect.Pointer) {
		return reflect.DeepEqual(a.Interface(), b.Interface())
	}
	return alike(a, b, false)
}
