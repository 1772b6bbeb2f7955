package facts

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"sync"
)

// negativeSize is the path below which a value has fewer than no bytes, "" where none has. Only a
// limit may: there it says that there is none.
func negativeSize(v reflect.Value, path string) string {
	if below, found := negative(v, ""); found {
		return path + below
	}
	return ""
}

func negative(v reflect.Value, unit string) (below string, found bool) {
	if !hasSizes(v.Type(), unit) {
		return "", false
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return negative(v.Elem(), unit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if below, found = negative(v.Field(i), cmp.Or(field.Tag.Get("unit"), unit)); found {
				if name := jsonName(field); name != "" {
					below = "." + name + below
				}
				return below, true
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if below, found = negative(v.Index(i), unit); found {
				return "." + strconv.Itoa(i) + below, true
			}
		}
	case reflect.Map:
		for key, value := range v.Seq2() {
			if below, found = negative(value, unit); found {
				return "." + key.String() + below, true
			}
		}
	case reflect.Int, reflect.Int64:
		return "", v.Int() < 0
	}
	return "", false
}

// sized are the types of which it is known, as part of something in a unit.
var sized sync.Map

type inUnit struct {
	reflect.Type
	unit string
}

// hasSizes is whether a value of a type can hold a size in bytes. Most of what a node tells
// cannot, and is then not looked through.
func hasSizes(t reflect.Type, unit string) bool {
	known, is := sized.Load(inUnit{t, unit})
	if !is {
		known = holdsSizes(t, unit, nil)
		sized.Store(inUnit{t, unit}, known)
	}
	return known.(bool)
}

// holdsSizes is the same, inside of other types, of which one may hold itself.
func holdsSizes(t reflect.Type, unit string, inside []reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return holdsSizes(t.Elem(), unit, inside)
	case reflect.Struct:
		if t == reflect.TypeFor[Limit]() || slices.Contains(inside, t) {
			return false
		}
		for i := range t.NumField() {
			if field := t.Field(i); holdsSizes(field.Type, cmp.Or(field.Tag.Get("unit"), unit), append(inside, t)) {
				return true
			}
		}
	case reflect.Int, reflect.Int64:
		return unit == "bytes"
	}
	return false
}
