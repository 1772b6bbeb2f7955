package facts

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
)

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
	var all []Description
	for section, field := range fieldOf {
		describe(&all, string(section), reflect.TypeFor[Facts]().Field(field).Type, "", "")
	}
	slices.SortFunc(all, func(a, b Description) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// describe walks a type as flatten walks its values.
func describe(all *[]Description, path string, t reflect.Type, tag, unit string) {
	kind := Number
	switch t.Kind() {
	case reflect.Pointer:
		describe(all, path, t.Elem(), tag, unit)
		return
	case reflect.Struct:
		for _, field := range comparedFields(t) {
			own := t.Field(field.index)
			describe(all, join(path, field.name), own.Type, field.tag, cmp.Or(own.Tag.Get("unit"), unit))
		}
		return
	case reflect.Map:
		describe(all, join(path, "*"), t.Elem(), "", unit)
		return
	case reflect.Slice:
		if strings.HasPrefix(tag, "key=") {
			describe(all, join(path, "*"), t.Elem(), "", unit)
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
