// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"github.com/dustin/go-humanize"
)

const (
	// mostTold is how many values are taken of a node: some twelve times what one with eight
	// GPUs has. Of every peer it can tell a few more.
	mostTold     = 1 << 14
	toldOfPeer   = 8
	bytesOfValue = 32 // of a text: each that begins is one value
)

// mostOf is what is taken of a section whose every name is held against all nodes: of the
// environment some five hundred variables, where libraries read three hundred; of Python four
// thousand packages, where all of Anaconda has five hundred.
var mostOf = map[Section]int{SectionEnv: 1 << 11, SectionPython: 1 << 12}

// Allowance is how many values are taken of a node, in a fleet of so many.
func Allowance(nodes int) int { return mostTold + toldOfPeer*nodes }

// Hold takes off a node the sections that no machine can have, and those that are too much for an
// allowance, the largest first, and says so in their place. The rest stays. It returns how
// many values that has.
//
// What a node told is held in memory, compared with all others and shown, fact by fact: an
// entry of a list that said nothing has as many facts as one that said everything.
func (n *Node) Hold(allowance int) (held int) {
	type part struct {
		Section
		values int
	}
	var parts []part
	for section := range fieldOf {
		if !n.Has(section) {
			continue
		}
		seen := n.section(section)
		if negative := negativeSize(seen, string(section)); negative != "" {
			n.leaveOut(section, negative+" is a negative size: no machine has that, so look there by hand")
			continue
		}
		parts = append(parts, part{section, values(seen)})
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Or(cmp.Compare(a.values, b.values), cmp.Compare(a.Section, b.Section)) })
	for _, p := range parts {
		most, limited := mostOf[p.Section]
		if most = min(most, allowance); !limited {
			most = allowance
		}
		if p.values <= most && held+p.values <= allowance {
			held += p.values
			continue
		}
		beside := ""
		if p.values <= most {
			beside, most = " beside all else it told", allowance
		}
		n.leaveOut(p.Section, fmt.Sprintf("it has %s values%s, and no more than %s are taken of one node (a long text counts as several): no machine that is well has as many, so look there by hand",
			humanize.Comma(int64(p.values)), beside, humanize.Comma(int64(most))))
	}
	return held
}

func (n *Node) leaveOut(section Section, why string) {
	n.Take(section, Facts{})
	if n.Missing == nil {
		n.Missing = map[Section]string{}
	}
	n.Missing[section] = "left out: " + why
}

// values counts what a section holds, the empty and the absent as well.
func values(v reflect.Value) (n int) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return values(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n += values(v.Field(i))
		}
		return n
	case reflect.Slice:
		for i := range v.Len() {
			n += values(v.Index(i))
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		for entry := v.MapRange(); entry.Next(); {
			key.SetIterKey(entry)
			value.SetIterValue(entry)
			n += key.Len()/bytesOfValue + values(value)
		}
	case reflect.String:
		n = v.Len() / bytesOfValue
	}
	return n + 1
}
