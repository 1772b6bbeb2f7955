package catalogue

import (
	"maps"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"preflight/checks/fleettest"
)

// TestFixesOfHostileFixtures has every text that makes a fixture what it is, one after the
// other and the keys of maps too, send what a shell would run, and pastes the fixes.
func TestFixesOfHostileFixtures(t *testing.T) {
	if testing.Short() {
		t.Skip("judges every fixture once for each of its texts")
	}
	lines := map[string]string{} // to paste, with where they come from
	for _, check := range Catalogue {
		for _, c := range fixturesOf(t, check.ID) {
			fleet, policy := c.build(t)
			healthy := fleettest.Healthy(len(fleet.Nodes))
			changedTexts(reflect.ValueOf(&fleet), reflect.ValueOf(&healthy), func(add func(string) func()) {
				defer add("x$(touch${IFS}pwned)';touch pwned;'\";touch pwned;\"`touch pwned`")()
				for _, f := range alone(check, fleet, policy).Findings {
					for _, line := range f.Fix {
						if strings.Contains(line, "pwned") {
							lines[line] = check.ID + "/" + c.name
						}
					}
				}
			})
		}
	}
	if len(lines) < 100 {
		t.Errorf("only %d fixes have what was sent in them", len(lines))
	}
	pasteAll(t, lines)
}

// changedTexts tries every text that is not as it was, and the keys of maps: add adds to it,
// and what it returns takes that away again.
func changedTexts(is, was reflect.Value, try func(add func(string) func())) {
	same := func(f func(reflect.Value) reflect.Value) (v reflect.Value) {
		if was.IsValid() && (was.Kind() != reflect.Pointer || !was.IsNil()) {
			v = f(was)
		}
		return v
	}
	switch is.Kind() {
	case reflect.String:
		if before := is.String(); !was.IsValid() || was.String() != before {
			try(func(more string) func() {
				is.SetString(before + more)
				return func() { is.SetString(before) }
			})
		}
	case reflect.Pointer:
		if !is.IsNil() {
			changedTexts(is.Elem(), same(reflect.Value.Elem), try)
		}
	case reflect.Struct:
		for i := range is.NumField() {
			changedTexts(is.Field(i), same(func(v reflect.Value) reflect.Value { return v.Field(i) }), try)
		}
	case reflect.Slice:
		for i := range is.Len() {
			changedTexts(is.Index(i), same(func(v reflect.Value) reflect.Value {
				if i < v.Len() {
					return v.Index(i)
				}
				return reflect.Value{}
			}), try)
		}
	case reflect.Map:
		for _, key := range is.MapKeys() {
			value, before := is.MapIndex(key), same(func(v reflect.Value) reflect.Value { return v.MapIndex(key) })
			if before.IsValid() && reflect.DeepEqual(value.Interface(), before.Interface()) {
				continue
			}
			try(func(more string) func() {
				is.SetMapIndex(key, reflect.Value{})
				other := reflect.ValueOf(key.String() + more).Convert(key.Type())
				is.SetMapIndex(other, value)
				return func() { is.SetMapIndex(other, reflect.Value{}); is.SetMapIndex(key, value) }
			})
			changed := reflect.New(value.Type()).Elem()
			changed.Set(value)
			changedTexts(changed, before, func(add func(string) func()) {
				try(func(more string) func() {
					undo := add(more)
					is.SetMapIndex(key, changed)
					return func() { undo(); is.SetMapIndex(key, value) }
				})
			})
		}
	}
}

// pasteAll runs lines as they would be pasted, with an ssh that hands what it was given to
// another shell and no other program in reach but touch.
func pasteAll(t *testing.T, lines map[string]string) {
	t.Helper()
	const stubs = `PATH=/nowhere
touch() { pwned=yes; echo "$line" >&3; }
sudo() { "$@"; }
ssh() { while test "${1#-}" != "$1"; do case $1 in -p) shift;; esac; shift; done; shift; eval "$*"; }
pdsh() { shift 4; eval "$*"; }
kill() { :; }
for line; do (eval "$line") </dev/null >/dev/null 2>&1; done`
	pasted := slices.Sorted(maps.Keys(lines))
	for chunk := range slices.Chunk(pasted, 200) {
		command := exec.CommandContext(t.Context(), "bash", append([]string{"-c", "exec 3>&1\n" + stubs, "bash"}, chunk...)...)
		command.Dir, command.Env = t.TempDir(), []string{"HOME=" + t.TempDir()}
		ran, _ := command.Output() // what it lacks does not matter
		for _, line := range strings.Split(strings.TrimSpace(string(ran)), "\n") {
			if line != "" {
				t.Errorf("%s: a node runs a command where this is pasted: %s", lines[line], line)
			}
		}
	}
}
