package report

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"preflight/checks"
	"preflight/facts"
)

// TestJSONIsOneText: what is written entry by entry is to the byte what is made of the whole.
func TestJSONIsOneText(t *testing.T) {
	file, err := os.Open("../cmd/preflight/demo.json")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	demo, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	empty := demo
	empty.Nodes, empty.Findings = []facts.Node{}, nil
	hostile := demo
	hostile.Hostfile = "\n \"nodes\": [],\n"
	hostile.Policy = "\x7f\u009b##vso[x]<&>\u202e"
	hostile.Nodes = []facts.Node{{Name: "\"findings\": []"}, {Name: "\x7f", Address: "##[x]"}}
	changed := Changed{Schema: checks.Schema, Changes: []checks.Change{{Node: "w1", Before: []byte(`{"a": [ ]}`)}, {Node: "w2"}}}
	for name, r := range map[string]checks.Report{"demo": demo, "empty": empty, "hostile": hostile, "zero": {}} {
		t.Run(name, func(t *testing.T) { sameJSON(t, r) })
	}
	t.Run("changes", func(t *testing.T) { sameJSON(t, changed) })
}

func sameJSON[Report any](t *testing.T, r Report) {
	var got, want bytes.Buffer
	encoder := Encoder(&want)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(r); err != nil {
		t.Fatal(err)
	}
	if err := JSON(&got, r); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("got\n%.2000s\nwant\n%.2000s", got.Bytes(), want.Bytes())
	}
}

// encoded counts how many entries have been made text of.
type encoded struct{ times *int }

func (e encoded) MarshalJSON() ([]byte, error) {
	*e.times++
	return []byte(fmt.Sprintf(`"entry %d"`, *e.times)), nil
}

// TestJSONIsNeverWhole: no entry is made text of before the one ahead of it is written.
func TestJSONIsNeverWhole(t *testing.T) {
	times := 0
	r := struct {
		Nodes []encoded `json:"nodes"`
	}{[]encoded{{&times}, {&times}, {&times}}}
	err := JSON(writes(func(text []byte) {
		if made := fmt.Sprintf("entry %d", times); bytes.Contains(text, []byte("entry ")) && !bytes.Contains(text, []byte(made)) {
			t.Errorf("%q is written when there is %s", text, made)
		}
	}), r)
	if err != nil || times != len(r.Nodes) {
		t.Errorf("%d entries of %d, %v", times, len(r.Nodes), err)
	}
}

// writes is told of what is written.
type writes func(text []byte)

func (w writes) Write(text []byte) (int, error) {
	w(text)
	return len(text), nil
}
