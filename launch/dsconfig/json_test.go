// SPDX-License-Identifier: Apache-2.0

package dsconfig

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// plain converts objects to maps, so that they can be compared.
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

// TestParse compares the results of parse with those of Python's hjson 3.1.0.
func TestParse(t *testing.T) {
	for _, c := range []struct {
		text string
		want any // a map, or the error
	}{
		{`{"a": 1, "b": [1, 2.5, "x", null, true], "c": {}}`, map[string]any{"a": 1, "b": []any{1, 2.5, "x", nil, true}, "c": map[string]any{}}},
		{`{"a": 5e8, "b": -0.5}`, map[string]any{"a": 500000000, "b": -0.5}},
		{`{"a": 1e10, "b": 12345678901234567890}`, map[string]any{"a": 1e10, "b": 12345678901234567890.}},
		{`{"a": "\u00e9\ud83d\ude00\n\/"}`, map[string]any{"a": "é😀\n/"}},
		{`{"a": 1e400}`, "OverflowError: cannot convert float infinity to integer"},
		{`{"b": 1, "a": 1, "a": 2, "b": 3, "b": 4}`, "ValueError: Duplicate keys in DeepSpeed config: ['b', 'a']"},
		{`{"a": {"x": 1, "x": 2}, "a": 2}`, "ValueError: Duplicate keys in DeepSpeed config: ['x']"},
	} {
		root, problem := parse(File{JSON: c.text}, "")
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

// FuzzReadConfig: Read reads the settings of any object without a crash.
func FuzzReadConfig(f *testing.F) {
	for _, text := range []string{`{"train_batch_size": 8, "zero_optimization": {"stage": 3}}`, `{"a": [1, {"b": -1.5e3}]}`, `{"a": "\ud83d", "a": 1}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) <= 4096 && json.Valid([]byte(text)) && Read(File{JSON: text}, "", 8) == nil {
			t.Errorf("%q is not read", text)
		}
	})
}
