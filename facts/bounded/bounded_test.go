// SPDX-License-Identifier: Apache-2.0

package bounded

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	list := func(entry string, n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(entry+",", n), ",") + "]"
	}
	for name, c := range map[string]struct {
		text string
		left int // of a hundred values, or of as many as the text needs
		err  string
	}{
		"a number":           {`1`, 99, ""},
		"a list":             {`[1, 2, 3]`, 96, ""},
		"an object":          {`{"a": 1, "b": [true]}`, 89, ""},
		"what looks like it": {`"{[,\"{{{{"`, 99, ""},
		"many":               {list("1", 100), 100, "too many values"},
		"many that are none": {list("{}", 12), 100, "too many values"},
		"deep":               {strings.Repeat("[", MaxDepth+1), 100, "more than 32 lists inside each other"},
		"as deep as may be":  {strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth), 100 - MaxDepth - 1, ""},
		"closed too often":   {`]]]]]]1`, 99, ""},
		"never closed":       {`"\`, 99, ""},
		"long text":          {`"` + strings.Repeat("x", MaxText) + `"`, 100, "a text of 262145 bytes, of at most 262144"},
	} {
		left, err := Check([]byte(c.text), 100)
		if left != c.left || err != nil && err.Error() != c.err || err == nil && c.err != "" {
			t.Errorf("%s: %d left, %v; want %d, %s", name, left, err, c.left, c.err)
		}
	}
	if _, err := Check([]byte(list("1", MaxEntries+1)), 1<<20); err == nil || err.Error() != "a list of more than 16384 entries" {
		t.Errorf("a long list: %v", err)
	}
}

// FuzzCheck: whatever is let through has no more in it than was allowed.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{`{"a": [1, {"b": "c,[{"}], "d": null}`, `[[],[[]],{}]`, `"\\"`, `{"a":"\""}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var decoded any
		if json.Unmarshal(text, &decoded) != nil {
			_, _ = Check(text, 64) // no more than not to fall over
			return
		}
		most := 64
		left, err := Check(text, most)
		if err == nil && count(decoded) > most-left {
			t.Errorf("%q has %d values, and %d were counted", text, count(decoded), most-left)
		}
	})
}

func count(value any) (n int) {
	switch value := value.(type) {
	case []any:
		for _, entry := range value {
			n += count(entry)
		}
	case map[string]any:
		for _, entry := range value {
			n += count(entry)
		}
	}
	return n + 1
}
