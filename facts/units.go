// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Unit is what the numbers of a fact are counted in: "bytes", "bit/s", "s", "W", "MHz",
// "°C", "%", or "" for plain counts. Keys of lists and maps in the path are skipped.
func Unit(path string) string {
	section, _, _ := strings.Cut(path, ".")
	field, known := fieldOf[Section(section)]
	if !known {
		return ""
	}
	return unit(reflect.TypeFor[Facts]().Field(field).Type, strings.TrimPrefix(path, section), "")
}

func unit(kind reflect.Type, rest, found string) string {
	switch kind.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		// An entry's key comes next and may itself hold dots, so the fields of the
		// entry are matched from the end.
		return unit(kind.Elem(), rest, found)
	case reflect.Struct:
		for field := range kind.Fields() {
			name := jsonName(field)
			if at := strings.LastIndex(rest+".", "."+name+"."); at >= 0 && name != "" {
				return unit(field.Type, rest[at:], cmp.Or(field.Tag.Get("unit"), found))
			}
		}
	}
	return found
}

// Units are all facts that are counted in something, also those that are compared with
// nothing: a tree of the JSON names, in which "*" stands for the entries of a list or a map
// and the leaves are as [Unit]'s.
func Units() map[string]any {
	return unitsBelow(reflect.TypeFor[Facts](), "", nil).(map[string]any)
}

// unitsBelow is nil where nothing is counted. A kind of facts that holds itself, as one
// meeting leads to the next, is gone into once more: there is no third.
func unitsBelow(kind reflect.Type, found string, within []reflect.Type) any {
	switch kind.Kind() {
	case reflect.Pointer:
		return unitsBelow(kind.Elem(), found, within)
	case reflect.Slice, reflect.Map:
		if below := unitsBelow(kind.Elem(), found, within); below != nil {
			return map[string]any{"*": below}
		}
		return nil
	case reflect.Struct:
		if at := slices.Index(within, kind); at >= 0 && slices.Contains(within[at+1:], kind) {
			return nil
		}
		tree := map[string]any{}
		for field := range kind.Fields() {
			below := unitsBelow(field.Type, cmp.Or(field.Tag.Get("unit"), found), append(slices.Clip(within), kind))
			fields, _ := below.(map[string]any)
			if name := jsonName(field); below != nil && name != "" {
				tree[name] = below
			} else { // an embedded struct, whose fields JSON has among the others
				maps.Copy(tree, fields)
			}
		}
		if len(tree) > 0 {
			return tree
		}
		return nil
	case reflect.String, reflect.Bool:
		return nil
	}
	if found == "" {
		return nil
	}
	return found
}

// Ranges says numbers in their order as the kernel does, "0-31,64"; "" for none.
func Ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		end := i
		for end+1 < len(numbers) && numbers[end+1] == numbers[end]+1 {
			end++
		}
		part := strconv.Itoa(numbers[i])
		if end > i {
			part += "-" + strconv.Itoa(numbers[end])
		}
		parts, i = append(parts, part), end+1
	}
	return strings.Join(parts, ",")
}
