// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"
)

// TestReadRefuses checks that the error says what is wrong with a file and in which line.
func TestReadRefuses(t *testing.T) {
	const whole = "{\"schema\": 1,\n\"nodes\": []}\n"
	for name, c := range map[string]struct{ text, want string }{
		"nothing":             {"", "it is empty"},
		"blanks":              {" \n\n ", "it is empty"},
		"cut":                 {"{\"schema\": 1,\n\"nodes\": [", "truncated in line 2"},
		"no JSON":             {"baseline: x\n", "line 1: invalid character 'b'"},
		"conflict":            {"{\"schema\": 1,\n<<<<<<< HEAD\n", "line 2: invalid character '<'"},
		"conflict at the end": {whole + ">>>>>>> theirs\n", "unexpected text after its end in line 2"},
		"two":                 {whole + whole, "unexpected text after its end in line 2"},
		"list":                {"[]", "line 1: the whole has the wrong type: array"},
		"kind":                {"{\"schema\": 1,\n\"nodes\": [\n{\"name\": 3}]}", "line 3: nodes.name has the wrong type: number"},
		"kind of the second":  {"{\"schema\": 1,\n\"nodes\": [{\"slots\": 1},\n{\"slots\": 1},\n{\"facts\": {\"shm\": {\"size\": \"1\"}}}]}", "line 4: nodes.facts.shm.size has the wrong type: string"},
		"kind of the head":    {"{\"schema\": 1,\n\"head\": 7, \"nodes\": []}", "line 2: head has the wrong type: number"},
		"schema":              {"{\"schema\": 2}", "its schema is 2"},
		"a later schema":      {"{\"schema\": 2, \"nodes\": [7]}", "its schema is 2"},
		"other":               {"{}", "its schema is 0"},
	} {
		if _, err := Read(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	later := strings.Replace(whole, "[]", `[{"name": "w1", "facts": {"host": {"new_fact": 3}, "new_section": {}}}], "new": 1`, 1)
	if r, err := Read(strings.NewReader(later)); err != nil || len(r.Nodes) != 1 {
		t.Errorf("of a later version: %v, %d nodes", err, len(r.Nodes))
	}
}

// zeros reads like /dev/zero.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestReadEndless checks that Read stops in a file that never ends.
func TestReadEndless(t *testing.T) {
	if _, err := Read(zeros{}); err == nil || !strings.Contains(err.Error(), `line 1: invalid character '\x00'`) {
		t.Error(err)
	}
}
