// SPDX-License-Identifier: Apache-2.0

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
	plan := sizesOf(v.Type(), unit)
	if !plan.any {
		return "", false
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return negative(v.Elem(), unit)
		}
	case reflect.Struct:
		for _, field := range plan.fields {
			if below, found = negative(v.Field(field.i), field.unit); found {
				return field.path + below, true
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

// sizes are what a type has of sizes in bytes. Most of what a node tells has none, and is then
// not looked through.
type sizes struct {
	any    bool
	fields []sizedField // of a struct, those that have some
}

type sizedField struct {
	i          int
	path, unit string
}

type inUnit struct {
	reflect.Type
	unit string
}

// knownSizes has a type's sizes once they were asked for, by inUnit.
var knownSizes sync.Map

func sizesOf(t reflect.Type, unit string) *sizes {
	if known, is := knownSizes.Load(inUnit{t, unit}); is {
		return known.(*sizes)
	}
	plan := &sizes{any: hasSizes(t, unit, nil)}
	if t.Kind() == reflect.Struct {
		for i := range t.NumField() {
			field := sizedField{i: i, unit: cmp.Or(t.Field(i).Tag.Get("unit"), unit)}
			if name := jsonName(t.Field(i)); name != "" {
				field.path = "." + name
			}
			if hasSizes(t.Field(i).Type, field.unit, nil) {
				plan.fields = append(plan.fields, field)
			}
		}
	}
	knownSizes.Store(inUnit{t, unit}, plan)
	return plan
}

// hasSizes is whether a value of a type can hold a size in bytes. inside are the types around it: one may
// hold itself.
func hasSizes(t reflect.Type, unit string, inside []reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return hasSizes(t.Elem(), unit, inside)
	case reflect.Struct:
		if t == reflect.TypeFor[Limit]() || slices.Contains(inside, t) {
			return false
		}
		for i := range t.NumField() {
			if field := t.Field(i); hasSizes(field.Type, cmp.Or(field.Tag.Get("unit"), unit), append(inside, t)) {
				return true
			}
		}
	case reflect.Int, reflect.Int64:
		return unit == "bytes"
	}
	return false
}
