// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"preflight/checks"
	"preflight/checks/engine"
	"preflight/testhosts/fleettest"
	"preflight/testhosts/sandbox"
)

// TestWhatIsPrintedIsSafeToPaste replaces every text that does not come from the program itself by
// hostile text, and pastes every printed line. This includes the keys of maps, the names of hosts,
// the prediction and the baseline.
//
// Each field of a healthy fleet, and each field that only fixtures have, is tried with every class
// of hostile text. The fields in which a fixture differs from a healthy fleet are those that its
// findings print. Each of these fields is tried with one class, until the results repeat.
func TestWhatIsPrintedIsSafeToPaste(t *testing.T) {
	var lines sandbox.Lines
	lasting := hostileHealthy(&lines)
	t.Run("fixtures", func(t *testing.T) {
		for i, check := range Catalogue {
			t.Run(check.ID, func(t *testing.T) {
				t.Parallel()
				hostileFixtures(t, i, lasting, &lines)
			})
		}
	})
	if lines.Len() < 200 {
		t.Errorf("only %d lines have what was sent in them", lines.Len())
	}
	lines.Paste(t)
}

// subject holds everything that an evaluation reads.
type subject struct {
	Fleet  fleettest.Fleet
	Policy checks.Policy
}

// ofHealthy returns a healthy fleet without changes since the baseline.
func ofHealthy(n int) subject {
	s := subject{fleettest.Healthy(n), checks.DefaultPolicy()}
	then := fleettest.Healthy(n)
	s.Policy.Baseline = &checks.Baseline{File: "golden.json", Nodes: then.Nodes, Head: then.Head, NotTried: then.NotTried}
	return s
}

// fields returns the texts of a subject by field. All texts that are the name of one host are under
// the key "host".
func (s *subject) fields(was *subject) map[string][]text {
	fields := map[string][]text{}
	for _, text := range textsOf(s, was) {
		if strings.HasPrefix(text.field, ".Policy.Expect") {
			continue // the user is responsible for fixes that the user states
		}
		if text.isChanged {
			fields[text.field] = append(fields[text.field], text)
		}
		if len(s.Fleet.Nodes) > 0 && text.is == s.Fleet.Nodes[len(s.Fleet.Nodes)-1].Name {
			fields["host"] = append(fields["host"], text)
		}
	}
	return fields
}

// hostile evaluates a subject in which some texts are replaced by hostile texts of a class.
func hostile(lines *sandbox.Lines, where string, class sandbox.Class, those []text, judge func() checks.Report) {
	for _, text := range those {
		text.set(class.In(text.is))
	}
	lines.Add(where+": "+class.Name, printed(judge())...)
	for _, text := range slices.Backward(those) {
		text.set(text.is)
	}
}

// hostileFixtures tries the fields in which a check's fixtures differ from a healthy fleet.
func hostileFixtures(t *testing.T, at int, lasting map[string]bool, lines *sandbox.Lines) {
	check, classes := Catalogue[at], sandbox.Classes
	met := map[string]int{}
	for _, c := range fixturesOf(t, check.ID) {
		var s subject
		s.Fleet, s.Policy = c.build(t)
		healthy := ofHealthy(len(s.Fleet.Nodes))
		fields := s.fields(&healthy)
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			tries := 0
			switch {
			case met[field] == 0 && !lasting[field]:
				tries = len(classes)
			case met[field] < len(classes):
				tries = 1
			}
			for range tries {
				class, those := classes[(at+met[field])%len(classes)], fields[field]
				if field != "host" {
					those = those[met[field]%len(those):][:1]
				}
				met[field]++
				hostile(lines, c.name+" "+field, class, those, func() checks.Report { return alone(check, s.Fleet, s.Policy) })
			}
		}
	}
}

// hostileHealthy tries the fields of a healthy fleet with the whole catalogue. It changes one field
// of each section at a time, and returns the fields that exist.
func hostileHealthy(lines *sandbox.Lines) (all map[string]bool) {
	s := ofHealthy(3)
	fields := s.fields(nil)
	sections := map[string][]string{}
	all = map[string]bool{}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		steps := strings.Split(field, ".") // such as .Fleet.Fleet.Nodes.Facts.Net.Interfaces.Name
		section := strings.Join(steps[:min(len(steps), 6)], ".")
		sections[section] = append(sections[section], field)
		all[field] = true
	}
	for round, tried := 0, true; tried; round++ {
		tried = false
		for c, class := range sandbox.Classes {
			var those []text
			for _, section := range slices.Sorted(maps.Keys(sections)) {
				if round < len(sections[section]) {
					texts := fields[sections[section][round]]
					if tried = true; section != "host" {
						texts = texts[c%len(texts):][:1]
					}
					those = append(those, texts...)
				}
			}
			hostile(lines, "healthy", class, those, func() checks.Report {
				return engine.Evaluate(Catalogue, s.Fleet.Fleet, s.Fleet.Launch, s.Policy)
			})
		}
	}
	return all
}

// printed returns the lines of a report that a person may paste or pass to DeepSpeed.
func printed(r checks.Report) (lines []string) {
	for _, f := range r.Findings {
		lines = append(lines, f.Fix...)
		for _, note := range f.Notes {
			lines = append(lines, "# "+note)
		}
	}
	for _, w := range r.Waived {
		lines = append(lines, w.Fix...)
	}
	for _, env := range slices.Concat(r.Advice.Env, r.Advice.Seen) {
		lines = append(lines, "export "+env.Name+"="+env.Value)
	}
	for _, argument := range r.Advice.Args {
		lines = append(lines, r.Advice.Program+" "+argument)
	}
	return lines
}

// text is a text in a value, or the key of a map in the value.
type text struct {
	field     string // the field, without indexes
	is        string
	isChanged bool // whether the text differs from that of the value with which it is compared
	set       func(string)
}

// textsOf returns the texts of a value, compared with another value if was is not nil.
func textsOf[T any](is, was *T) (all []text) {
	var other reflect.Value
	if was != nil {
		other = reflect.ValueOf(was).Elem()
	}
	reader{all: &all, store: func() {}}.read("", reflect.ValueOf(is).Elem(), other)
	return all
}

// reader collects the texts of a value. If the value is a copy, store writes the copy back.
type reader struct {
	all   *[]text
	store func()
}

func (r reader) read(field string, is, was reflect.Value) {
	same := func(f func(reflect.Value) reflect.Value) (v reflect.Value) {
		if was.IsValid() && (was.Kind() != reflect.Pointer || !was.IsNil()) {
			v = f(was)
		}
		return v
	}
	switch is.Kind() {
	case reflect.String:
		if !is.CanSet() {
			return // no other package can set an unexported field
		}
		*r.all = append(*r.all, text{field, is.String(), !was.IsValid() || was.String() != is.String(), func(s string) { is.SetString(s); r.store() }})
	case reflect.Pointer:
		if !is.IsNil() {
			r.read(field, is.Elem(), same(reflect.Value.Elem))
		}
	case reflect.Struct:
		for i := range is.NumField() {
			r.read(field+"."+is.Type().Field(i).Name, is.Field(i), same(func(v reflect.Value) reflect.Value { return v.Field(i) }))
		}
	case reflect.Slice:
		for i := range is.Len() {
			r.read(field, is.Index(i), same(func(v reflect.Value) reflect.Value {
				if i < v.Len() {
					return v.Index(i)
				}
				return reflect.Value{}
			}))
		}
	case reflect.Map:
		for _, key := range slices.SortedFunc(slices.Values(is.MapKeys()), func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) }) {
			r.entry(field, is, key, same(func(v reflect.Value) reflect.Value { return v.MapIndex(key) }))
		}
	}
}

// entry reads an entry of a map. The entry's value is a copy, and its key may have been replaced.
func (r reader) entry(field string, of, key, was reflect.Value) {
	value := reflect.New(of.Type().Elem()).Elem()
	value.Set(of.MapIndex(key))
	store := func() { of.SetMapIndex(key, value) }
	if key.Kind() == reflect.String {
		isChanged := !was.IsValid() || !reflect.DeepEqual(value.Interface(), was.Interface())
		*r.all = append(*r.all, text{field + " key", key.String(), isChanged, func(s string) {
			of.SetMapIndex(key, reflect.Value{})
			key = reflect.ValueOf(s).Convert(key.Type())
			store()
		}})
	}
	reader{r.all, store}.read(field, value, was)
}
