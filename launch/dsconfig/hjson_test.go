// SPDX-License-Identifier: Apache-2.0

package dsconfig

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// plain makes maps of objects, so that they compare.
func plain(value any) any {
	switch v := value.(type) {
	case *object:
		made := map[string]any{}
		for name, below := range v.values {
			made[name] = plain(below)
		}
		return made
	case []any:
		made := []any{}
		for _, below := range v {
			made = append(made, plain(below))
		}
		return made
	}
	return value
}

// What Python's hjson 3.1.0 makes of the same texts.
func TestHjson(t *testing.T) {
	const error = "hjson.scanner.HjsonDecodeError: "
	for _, c := range []struct {
		text string
		want any // a map, or the error
	}{
		{`{"a": 1, "b": [1, 2.5, "x", null, true], "c": {}}`, map[string]any{"a": 1, "b": []any{1, 2.5, "x", nil, true}, "c": map[string]any{}}},
		{"{a: 5e8 # much\n b: x y // z\n c: 'q'\n}", map[string]any{"a": 500000000, "b": "x y // z", "c": "q"}},
		{"a: 1\n/* b: 2 */ c: -0.5,", map[string]any{"a": 1, "c": -0.5}},
		{"{\"a\": 1 \"b\": 2}\n}", map[string]any{"a": `1 "b": 2}`}},
		{"{a: 1e10, b: 12345678901234567890}", map[string]any{"a": 1e10, "b": 12345678901234567890.}},
		{"{a:\n  '''\n  one\n    two\n  '''}", map[string]any{"a": "one\n  two"}},
		{`{"a": "\u00e9\ud83d\ude00\n\/"}`, map[string]any{"a": "é😀\n/"}},
		{"\ufeff{a: nullx}\n}", map[string]any{"a": "nullx}"}},
		{"", map[string]any{}},
		{"# nothing", map[string]any{}},
		{`{"a": 1`, error + "Bad key name (eof): line 1 column 8 (char 7)"},
		{"{\n\"a\" 1}", error + "Expecting ':' delimiter: line 2 column 5 (char 6)"},
		{"{a: }", error + "Found a punctuator character when expecting a quoteless string (check your syntax): line 1 column 5 (char 4)"},
		{"{a b: 1}", error + "Found whitespace in your key name (use quotes to include): line 1 column 3 (char 2)"},
		{"{: 1}", error + "Found ':' but no key name (for an empty key name use quotes): line 1 column 2 (char 1)"},
		{"{, a: 1}", error + "Found ',' where a key name was expected (check your syntax or use quotes if the key name includes {}[],: or whitespace): line 1 column 2 (char 1)"},
		{`{"a": "x`, error + "Unterminated string starting at: line 1 column 7 (char 6)"},
		{`{"a": "\x"}`, error + `Invalid \X escape sequence 'x': line 1 column 9 (char 8)`},
		{`{"a": "\u12"}`, error + `Invalid \uXXXX escape sequence: line 1 column 8 (char 7)`},
		{"{a: [1", error + "Expecting value: line 1 column 7 (char 6)"},
		{"{a: [", error + "End of input while parsing an array (did you forget a closing ']'?): line 1 column 6 (char 5)"},
		{"{a: 1} x", error + "Extra data: line 1 column 8 - line 1 column 9 (char 7 - 8)"},
		{"{a: '''x", "IndexError: string index out of range"},
		{"{a:\n'''x", error + "Bad multiline string: line 2 column 5 (char 8)"},
		{"{/* x", "IndexError: string index out of range"},
		// What hjson-go 4.6.0 reads otherwise, or where it goes on.
		{"{a: \"x\ty\"}", error + `Invalid control character 'y' at: line 1 column 8 (char 7)`},
		{"{a: '''x'''}", "IndexError: string index out of range"},
		{"a: 1 /* x", "IndexError: string index out of range"},
		{"{a: 1e400}", "OverflowError: cannot convert float infinity to integer"},
		{"{a: 5e\n}", map[string]any{"a": "5e"}},
		{`{a: "\ud83d\ude0"}`, error + `Invalid \uXXXX escape sequence: line 1 column 12 (char 11)`},
		{"\ufeff{\"a: 1", error + "Unterminated string starting at: line 1 column 3 (char 2)"},
		{"a: 1\na: 2\nb: 3\nb: 4", "ValueError: Duplicate keys in DeepSpeed config: ['a', 'b']"},
	} {
		root, problem := parse(c.text, "")
		var got any
		if problem != nil {
			got = problem.Original
		} else {
			got = plain(root)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", c.text, diff)
		}
	}
}

// FuzzReadConfig: whatever a file holds, it is read to an end, and what is JSON
// is Hjson.
func FuzzReadConfig(f *testing.F) {
	for _, text := range []string{`{"train_batch_size": 8, "zero_optimization": {"stage": 3}}`, "a: '''\nb'''", "{a: [1, {b: /* c */ -1.5e3}]}", `{"a": "\ud83d"}`, "{'"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 {
			return // nesting is bounded by Python's stack, and by the probe's cap on the file
		}
		Read("ds.json", text, "", 8)
		var object map[string]any
		if json.Unmarshal([]byte(text), &object) == nil && object != nil {
			if _, problem := parse(text, "0.7.7"); problem != nil && problem.Original == "json.decoder.JSONDecodeError" {
				t.Errorf("%q is JSON", text)
			}
		}
	})
}
