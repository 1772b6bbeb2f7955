// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"maps"
	"reflect"
	"testing"
)

// deep is a depth that covers every section. A limit is needed because a rendezvous may hold a next
// rendezvous without end.
const deep = 8

// everything fills a value recursively and gives each list two different entries.
func everything(v reflect.Value, depth int) {
	if depth > deep {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		everything(v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			everything(v.Field(i), depth+1)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			everything(v.Index(i), depth+1)
		}
		if entry := v.Index(1); entry.Kind() == reflect.Struct {
			changeLeaf(entry, 0) // the first leaf is usually the entry's name
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		value := reflect.New(v.Type().Elem()).Elem()
		everything(value, depth+1)
		v.SetMapIndex(reflect.ValueOf("key").Convert(v.Type().Key()), value)
	}
}

// changeLeaf changes the n-th leaf of a value and returns how many leaves it counted. The count is
// larger than n if it changed a leaf.
func changeLeaf(v reflect.Value, n int) (leaves int) {
	each := func(part reflect.Value) { leaves += changeLeaf(part, n-leaves) }
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			each(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			each(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			each(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(key))
			each(value)
			v.SetMapIndex(key, value)
		}
	default:
		if n == 0 {
			change(v)
		}
		return 1
	}
	return leaves
}

func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	case reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	default:
		v.SetInt(v.Int() + 1)
	}
}

// TestAlike changes every value of every section once. Sections must be alike if and only if their
// comparable facts are the same.
func TestAlike(t *testing.T) {
	filled := func() (f Facts) {
		everything(reflect.ValueOf(&f).Elem(), 0)
		return f
	}
	comparable := func(f Facts, s Section) map[string]string {
		all := map[string]string{}
		f.EachComparable(s, func(path, value string) { all[path] = value })
		return all
	}
	told, silent := 0, 0
	for _, section := range Sections() {
		for n, leaves := 0, 1; n < leaves; n++ {
			before, after := filled(), filled()
			leaves = changeLeaf(after.section(section), n)
			want := maps.Equal(comparable(before, section), comparable(after, section))
			if got := before.Alike(&after, section); got != want {
				t.Errorf("%s, value %d: alike %v, but facts are the same: %v", section, n, got, want)
			}
			if want {
				silent++
			} else {
				told++
			}
		}
	}
	if told < 200 || silent < 50 {
		t.Errorf("%d values that are compared and %d that are not: is that all?", told, silent)
	}
}

// TestAlikeParts covers lists of different lengths and sections that only one side has.
func TestAlikeParts(t *testing.T) {
	some := &Facts{Host: &Host{NUMA: []NUMA{{ID: 0}}}, Python: &Python{SysPath: []string{"/a"}, Packages: map[string]string{"torch": "2.5.1"}}}
	for i, other := range []*Facts{
		{},
		{Host: &Host{}, Python: &Python{SysPath: []string{"/a"}}},
		{Host: &Host{NUMA: []NUMA{{ID: 0}, {ID: 1}}}, Python: &Python{SysPath: []string{"/a", "/b"}, Packages: map[string]string{"torch": "2.5.1"}}},
	} {
		for _, section := range []Section{SectionHost, SectionPython} {
			if some.Alike(other, section) || other.Alike(some, section) {
				t.Errorf("case %d: %s is alike", i, section)
			}
		}
	}
	if empty := (&Facts{}); !empty.Alike(&Facts{}, SectionHost) {
		t.Error("what nobody has is not alike")
	}
}
