// SPDX-License-Identifier: Apache-2.0

package html

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"preflight/facts"
	"preflight/testhosts/reporttest"
)

// restored returns the facts of one node, rebuilt from the table as the page's script does.
func restored(t *testing.T, table *factTable, node int) facts.Facts {
	t.Helper()
	sections := map[string]map[string]any{}
	for _, field := range table.Fields {
		at := 0
		if field.Order >= 0 {
			at = table.Orders[field.Order][node]
		}
		if at < 0 {
			continue
		}
		which := 0
		for at >= field.Shapes[which].Count {
			at -= field.Shapes[which].Count
			which++
		}
		value, err := decoded(field.Shapes[which].Value)
		if err != nil {
			t.Fatal(err)
		}
		for _, hole := range field.Shapes[which].Holes {
			column, err := decoded(table.Columns[hole.Column])
			if err != nil {
				t.Fatal(err)
			}
			value = fill(value, hole.At, column.([]any)[at])
		}
		if sections[field.Section] == nil {
			sections[field.Section] = map[string]any{}
		}
		sections[field.Section][field.Name] = value
	}
	text, err := json.Marshal(sections)
	if err != nil {
		t.Fatal(err)
	}
	var out facts.Facts
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func fill(value any, at []any, with any) any {
	if len(at) == 0 {
		return with
	}
	switch v := value.(type) {
	case map[string]any:
		v[at[0].(string)] = fill(v[at[0].(string)], at[1:], with)
	case []any:
		v[at[0].(int)] = fill(v[at[0].(int)], at[1:], with)
	}
	return value
}

// asSent returns the facts after encoding and decoding them as JSON, which makes some empty lists
// nil.
func asSent(t *testing.T, f facts.Facts) (out facts.Facts) {
	t.Helper()
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestFactsAreKeptWhole checks that the table gives every node its own facts back, although nodes
// share values.
func TestFactsAreKeptWhole(t *testing.T) {
	nodes := append(reporttest.Recorded(t).Nodes, largeFleet(t, 30).Nodes...)
	table, err := newFactTable(nodes)
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		if diff := cmp.Diff(asSent(t, nodes[i].Facts), restored(t, table, i)); diff != "" {
			t.Fatalf("%s (-told +kept):\n%s", nodes[i].Name, diff)
		}
	}
}

func TestFactsAreShared(t *testing.T) {
	values := []json.RawMessage{
		json.RawMessage(`{"a":1,"b":["x"]}`), nil, json.RawMessage(`{"a":2,"b":["x"]}`), json.RawMessage(`{"a":2,"b":["x"]}`), json.RawMessage(`{"a":2,"b":[]}`),
	}
	alike := []json.RawMessage{json.RawMessage("true"), json.RawMessage("true")}
	m := emptyTable()
	for _, add := range []struct {
		name   string
		values []json.RawMessage
	}{{"tcp", values}, {"again", values}, {"ipv6", alike}} {
		if err := m.add("net", add.name, add.values); err != nil {
			t.Fatal(err)
		}
	}
	shapes := []*factShape{
		{Count: 2, Value: values[0], Holes: []*factHole{{At: []any{"a"}, Column: 0}}},
		{Count: 1, Value: values[4], Holes: []*factHole{}},
	}
	want := &factTable{
		Fields: []*factField{
			{Section: "net", Name: "tcp", Order: 0, Shapes: shapes}, {Section: "net", Name: "again", Order: 0, Shapes: shapes},
			{Section: "net", Name: "ipv6", Order: -1, Shapes: []*factShape{{Count: 1, Value: alike[0], Holes: []*factHole{}}}},
		},
		Orders: [][]int{{0, -1, 1, 1, 2}}, Columns: []json.RawMessage{json.RawMessage("[1,2]")}, Missing: []map[facts.Section]string{}, Units: map[string]any{},
	}
	if diff := cmp.Diff(want, m, cmpopts.IgnoreUnexported(factTable{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
