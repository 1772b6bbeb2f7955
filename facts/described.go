// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"slices"
	"strconv"
	"strings"
)

// Kind is the type of a fact's values.
type Kind string

const (
	Text   Kind = "text"
	Number Kind = "number"
	Truth  Kind = "true or false"
	List   Kind = "list" // nodes compare such a list as a whole
)

// Description describes one fact that EachComparable or EachOwn visits. In Path, "*" stands for the
// name of a list or map entry, as in "net.interfaces.*.mtu". Unit is the result of [Unit].
type Description struct {
	Path string
	Kind Kind
	Unit string
}

// Described lists every fact that can be compared, sorted by path.
func Described() []Description {
	return described(func(f *field) bool { return f.compared })
}

// DescribedOwn lists every fact that EachOwn visits, sorted by path. It leaves out the sections
// that are limited to one moment or one launch.
func DescribedOwn() []Description {
	return described(func(f *field) bool { return f.own && f.lasts })
}

func described(taken func(*field) bool) (all []Description) {
	_, fields := plan()
	for _, f := range fields {
		if taken(f) && f.Kind != "" {
			all = append(all, f.Description)
		}
	}
	slices.SortFunc(all, func(a, b Description) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// Keys returns the lists whose entries are matched by a field. The result maps each list's path (as
// in Description.Path) to the JSON name of that field.
func Keys() map[string]string {
	keys := map[string]string{}
	_, fields := plan()
	for _, f := range fields {
		if f.compared && f.by != "" {
			keys[f.Path] = f.by
		}
	}
	return keys
}

// Unit returns the unit of a numeric fact: "bytes", "bit/s", "s", "W", "MHz", "°C", "%", or "" for
// plain counts. path may contain names of entries, or "*" in their place.
func Unit(path string) string {
	_, fields := plan()
	for _, f := range fields {
		if f.Unit != "" && matches(f.Path, path) {
			return f.Unit
		}
	}
	return ""
}

// Units returns the unit of every fact that has one, including facts that are never compared. The
// result is a tree of the JSON names in which "*" stands for the entries of a list or a map. Each
// leaf is a unit as [Unit] returns it.
func Units() map[string]any {
	sections, _ := plan()
	tree := map[string]any{}
	for name, section := range sections {
		if below := section.units(); below != nil {
			tree[string(name)] = below
		}
	}
	return tree
}

// units returns nil if no fact below f has a unit.
func (f *field) units() any {
	if f.Kind == Number && f.Unit != "" {
		return f.Unit
	}
	tree := map[string]any{}
	for _, below := range f.below {
		if units := below.units(); units != nil {
			tree[below.name] = units
		}
	}
	if len(tree) == 0 {
		return nil
	}
	return tree
}

// Ranges formats sorted numbers as the kernel does: "0-31,64". It returns "" for no numbers.
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
