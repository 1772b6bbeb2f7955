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

// largest is of the pieces that something is written in.
type largest int

func (l *largest) Write(text []byte) (int, error) {
	*l = max(*l, largest(len(text)))
	return len(text), nil
}

// TestJSONIsNeverWhole: of a fleet no more is held as text than of a node.
func TestJSONIsNeverWhole(t *testing.T) {
	var one, many largest
	r := checks.Report{Fleet: facts.Fleet{Nodes: make([]facts.Node, 1)}}
	if err := JSON(&one, r); err != nil {
		t.Fatal(err)
	}
	r.Nodes = nil
	for i := range 1000 {
		r.Nodes = append(r.Nodes, facts.Node{Name: fmt.Sprint("w", i)})
		r.Findings = append(r.Findings, checks.Finding{Check: "drift", Nodes: []string{fmt.Sprint("w", i)}})
	}
	if err := JSON(&many, r); err != nil {
		t.Fatal(err)
	}
	if many > 2*one {
		t.Errorf("of a thousand nodes %d bytes are written at once, of one %d", many, one)
	}
}
