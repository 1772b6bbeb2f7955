// SPDX-License-Identifier: Apache-2.0

package edit

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTextIsAsItWasWritten: what nobody changes is the same to the byte.
func TestTextIsAsItWasWritten(t *testing.T) {
	for _, text := range []string{
		"{}", "[]", "{ }", "[\n]", `""`, "null", "-1.5e+3", "true",
		`{"a":1,"b":[1,2,[],{}],"c":{"d":null}}`,
		"{\n  \"a\": 1,\n  \"b\": [\n    \"x\",\n    \"y\"\n  ]\n}",
		"{\r\n\t\"a\" :1 ,\r\n\t\"b\" : 2\r\n}",
		"[1 , 2\n, 3 ]",
		`{"a\"}":"b\\","c/d":"\/","\ud83d\ude00":"\ud800 \u00e9","":""}`,
		`{"a":1,"a":2}`,
		`["{","]",",",":"]`,
	} {
		if got := string(Parse([]byte(text)).Text()); got != text {
			t.Errorf("%q was read and written as %q", text, got)
		}
	}
}

func TestTake(t *testing.T) {
	for what, test := range map[string]struct{ text, from, name, by, want string }{
		"another value":                {`{"a": 1, "b": 2}`, `{"a": 1, "b": 3}`, "b", "", `{"a": 1, "b": 3}`},
		"of another kind":              {`{"a": [1, 2]}`, `{"a": {"b": null}}`, "a", "", `{"a": {"b": null}}`},
		"around it all stays":          {"{\r\n\t\"a\" : 1 ,\r\n\t\"b\": 1e2 }", `{"a":2,"b":2}`, "a", "", "{\r\n\t\"a\" : 2 ,\r\n\t\"b\": 1e2 }"},
		"gone":                         {`{ "a": 1, "b": 2, "c": 3 }`, `{ "a": 1, "c": 3 }`, "b", "", `{ "a": 1, "c": 3 }`},
		"the last is gone":             {"{\n  \"a\": 1,\n  \"b\": 2\n}", "{\n  \"a\": 1\n}", "b", "", "{\n  \"a\": 1\n}"},
		"the only one is gone":         {"{\n  \"a\": 1\n}", `{}`, "a", "", `{}`},
		"new, behind what it is there": {"{\n  \"a\": 1,\n  \"z\": 2\n}", "{\n  \"a\": 1,\n  \"b\": 7,\n  \"c\": 8\n}", "c", "", "{\n  \"a\": 1,\n  \"c\": 8,\n  \"z\": 2\n}"},
		"new, the first":               {"{\n  \"b\": 1\n}", "{\n  \"a\": 7,\n  \"b\": 1\n}", "a", "", "{\n  \"a\": 7,\n  \"b\": 1\n}"},
		"new, the last":                {"{\n  \"a\": 1\n}", "{\n  \"a\": 1,\n  \"b\": 7\n}", "b", "", "{\n  \"a\": 1,\n  \"b\": 7\n}"},
		"new, the only one":            {`{}`, "{\n  \"a\": 7\n}", "a", "", "{\n  \"a\": 7\n}"},
		"in neither":                   {`{"a": 1}`, `{"b": 1}`, "c", "", `{"a": 1}`},
		"a name with dots":             {`{"eth0": 1, "eth0.100": 2}`, `{"eth0": 1, "eth0.100": 3}`, "eth0.100", "", `{"eth0": 1, "eth0.100": 3}`},
		"a name that is escaped":       {`{"a\/b": 1}`, `{"a/b": 2}`, "a/b", "", `{"a\/b": 2}`},
		"a name of surrogates":         {`{"\ud83d\ude00": 1}`, `{"😀": 2}`, "😀", "", `{"\ud83d\ude00": 2}`},
		"a name that is twice there":   {`{"a": 1, "a": 2}`, `{"a": 3}`, "a", "", `{"a": 1, "a": 3}`},
		"twice there, gone":            {`{"a": 1, "b": 5, "a": 2}`, `{"b": 5}`, "a", "", `{ "b": 5}`},
		"an entry of a list":           {`[{"name": "w1", "n": 1}, {"name": "w2"}]`, `[{"name": "w1", "n": 2}]`, "w1", "name", `[{"name": "w1", "n": 2}, {"name": "w2"}]`},
		"an entry by its number":       {`[{"port": 1}, {"port": 2}]`, `[{"port": 2, "up": true}]`, "2", "port", `[{"port": 1}, {"port": 2, "up": true}]`},
		"an entry that is gone":        {`[{"name": "w1"}, {"name": "w2"}]`, `[]`, "w1", "name", `[ {"name": "w2"}]`},
		"an entry that is new":         {`[]`, `[{"name": "w1"}]`, "w1", "name", `[{"name": "w1"}]`},
	} {
		v := Parse([]byte(test.text))
		v.Take(test.name, test.by, Parse([]byte(test.from)))
		if got := string(v.Text()); got != test.want {
			t.Errorf("%s: got %q\nwant %q", what, got, test.want)
		}
	}
}

func TestNames(t *testing.T) {
	if diff := cmp.Diff([]string{"a", "", "/", "é"}, Parse([]byte(`{"a":1,"":2,"\/":3,"\u00e9":4}`)).Names("")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"w1", "7", "", ""}, Parse([]byte(`[{"name":"w1"},{"name":7},{},{"name":null}]`)).Names("name")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// FuzzTake: of two JSON texts, what nobody changes is written as it was read, and the object
// that has taken all of another means the same.
func FuzzTake(f *testing.F) {
	f.Add(`{"a":1}`, `{}`)
	f.Add("{\n \"a\" : [1, {}] ,\"b\": \"\\/\"}", `{"c":null, "b":""}`)
	f.Add(`{"a":1,"\u0061":2,"b":3}`, `{"b":{"x":1},"d":[],"b":4}`)
	f.Fuzz(func(t *testing.T, one, other string) {
		var was, is map[string]any
		if json.Unmarshal([]byte(one), &was) != nil || json.Unmarshal([]byte(other), &is) != nil || was == nil || is == nil {
			t.Skip() // whoever calls has read them
		}
		v, from := Parse([]byte(one)), Parse([]byte(other))
		if got := string(v.Text()); got != strings.Trim(one, " \t\r\n") {
			t.Fatalf("%q was read and written as %q", one, got)
		}
		for _, name := range append(v.Names(""), from.Names("")...) {
			v.Take(name, "", from)
		}
		var got map[string]any
		if err := json.Unmarshal(v.Text(), &got); err != nil {
			t.Fatalf("%q takes all of %q: %v in %q", one, other, err, v.Text())
		}
		if diff := cmp.Diff(is, got); diff != "" {
			t.Errorf("%q takes all of %q (-want +got):\n%s", one, other, diff)
		}
	})
}
