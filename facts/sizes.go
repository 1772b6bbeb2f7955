package facts

import (
	"cmp"
	"reflect"
	"strconv"
)

// negativeSize is the path below which a value has fewer than no bytes, "" where none has. Only a
// limit may: there it says that there is none.
func negativeSize(v reflect.Value, unit, path string) (found string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			found = negativeSize(v.Elem(), unit, path)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[Limit]() {
			return ""
		}
		for i := range v.NumField() {
			field := v.Type().Field(i)
			below := path
			if name := jsonName(field); name != "" {
				below += "." + name
			}
			found = cmp.Or(found, negativeSize(v.Field(i), cmp.Or(field.Tag.Get("unit"), unit), below))
		}
	case reflect.Slice:
		for i := range v.Len() {
			found = cmp.Or(found, negativeSize(v.Index(i), unit, path+"."+strconv.Itoa(i)))
		}
	case reflect.Map:
		for key, value := range v.Seq2() {
			found = cmp.Or(found, negativeSize(value, unit, path+"."+key.String()))
		}
	case reflect.Int, reflect.Int64:
		if unit == "bytes" && v.Int() < 0 {
			found = path
		}
	}
	return found
}
