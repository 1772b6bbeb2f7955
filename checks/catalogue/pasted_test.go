package catalogue

import (
	"cmp"
	"reflect"
	"slices"
	"sync"
	"testing"

	"preflight/checks"
	"preflight/checks/fix/sandbox"
	"preflight/checks/fleettest"
)

// TestWhatIsPrintedIsSafeToPaste has whatever is not the program's own turn hostile, and
// pastes every line that is printed then: each text of each fixture, keys of maps, names of
// hosts, the prediction, the policy and the baseline included. What makes a fixture other
// than a healthy fleet is what its findings are of: each such text meets a class of
// hostility, and each field of them every class, as each field of a healthy fleet does.
func TestWhatIsPrintedIsSafeToPaste(t *testing.T) {
	if testing.Short() {
		t.Skip("judges every fixture many times")
	}
	var lines sandbox.Lines
	var work sync.WaitGroup
	hostile := make(chan func())
	for range 2 {
		work.Go(func() {
			for try := range hostile {
				try()
			}
		})
	}
	for part := range parts {
		hostile <- func() { hostileHealthy(&lines, part) }
	}
	for _, check := range Catalogue {
		hostile <- func() { hostileFixtures(t, check, &lines) }
	}
	close(hostile)
	work.Wait()
	if lines.Len() < 5000 {
		t.Errorf("only %d lines have what was sent in them", lines.Len())
	}
	lines.Paste(t)
}

// subject is all that is judged.
type subject struct {
	Fleet  fleettest.Fleet
	Policy checks.Policy
}

// meeting has the texts of each field meet one class of hostility after the other.
type meeting struct {
	lines *sandbox.Lines
	judge func() checks.Report
	met   map[string]int // by field, how many of its texts have
}

// with judges with one text as the next class has it, or with several at once that are one name.
func (m meeting) with(where, field string, those ...text) {
	class := sandbox.Classes[m.met[field]%len(sandbox.Classes)]
	m.met[field]++
	before := those[0].is
	for _, text := range those {
		text.set(class.In(before))
	}
	m.lines.Add(where+" "+field+": "+class.Name, printed(m.judge())...)
	for _, text := range slices.Backward(those) {
		text.set(before)
	}
}

// rest has a field meet those classes that it has not met.
func (m meeting) rest(where, field string, those ...text) {
	for m.met[field] < len(sandbox.Classes) {
		m.with(where, field, those...)
	}
}

// enough is how many texts of one field a check's fixtures try: more are much the same.
var enough = 2 * len(sandbox.Classes)

// hostileFixtures tries the texts by which a check's fixtures differ from a healthy fleet, and in
// each the name of a host.
func hostileFixtures(t *testing.T, check checks.Check, lines *sandbox.Lines) {
	m := meeting{lines: lines, met: map[string]int{}}
	last := map[string]func(){}
	for i, c := range fixturesOf(t, check.ID) {
		var s, healthy subject
		s.Fleet, s.Policy = c.build(t)
		healthy.Fleet, healthy.Policy = fleettest.Healthy(len(s.Fleet.Nodes)), checks.DefaultPolicy()
		m.judge = func() checks.Report { return alone(check, s.Fleet, s.Policy) }
		here := m
		all := textsOf(&s, &healthy)
		for _, text := range all {
			if text.isChanged && m.met[text.field] < enough {
				m.with(c.name, text.field, text)
				last[text.field] = func() { here.rest(c.name, text.field, text) }
			}
		}
		if len(s.Fleet.Nodes) == 0 {
			continue
		}
		name := s.Fleet.Nodes[i%len(s.Fleet.Nodes)].Name
		those := slices.DeleteFunc(all, func(text text) bool { return text.is != name })
		m.with(c.name, "host", those...)
		last["host"] = func() { here.rest(c.name, "host", those...) }
	}
	for _, rest := range last {
		rest()
	}
}

// parts are among how many the fields of the healthy fleet are dealt out.
const parts = 8

// hostileHealthy tries each field of a healthy fleet, its texts in turn, with the whole catalogue.
func hostileHealthy(lines *sandbox.Lines, part int) {
	s := subject{fleettest.Healthy(3), checks.DefaultPolicy()}
	m := meeting{lines, func() checks.Report { return judged(s.Fleet, Catalogue...) }, map[string]int{}}
	of := map[string][]text{"host": {}}
	var fields []string
	for _, text := range textsOf(&s, nil) {
		if of[text.field] == nil {
			fields = append(fields, text.field)
		}
		of[text.field] = append(of[text.field], text)
		if text.is == "w2" {
			of["host"] = append(of["host"], text)
		}
	}
	for i, field := range fields {
		for n := 0; i%parts == part && n < len(sandbox.Classes); n++ {
			m.with("healthy", field, of[field][n*7%len(of[field])])
		}
	}
	if part == 0 {
		m.rest("healthy", "host", of["host"]...)
	}
}

// printed are the lines of a report that somebody may paste, or have DeepSpeed do so.
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

// text is one of a value, or the key of a map in it.
type text struct {
	field     string // which, whatever the index
	is        string
	isChanged bool // it is another one than elsewhere
	set       func(string)
}

// textsOf are the texts of a value, compared with another one where there is one.
func textsOf[T any](is, was *T) (all []text) {
	var other reflect.Value
	if was != nil {
		other = reflect.ValueOf(was).Elem()
	}
	reader{all: &all, store: func() {}}.read("", reflect.ValueOf(is).Elem(), other)
	return all
}

// reader reads texts of a value, and where that is a copy store puts it back.
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
			return // nobody outside its package gives it one
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

// entry reads that of a map, whose value is a copy and whose key may be another by then.
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
