// SPDX-License-Identifier: Apache-2.0

package html

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
	"preflight/internal/text"
)

// factTable holds the facts of all nodes, with shared values stored once. The nodes of a fleet
// mostly differ only in names, addresses, serial numbers and temperatures.
type factTable struct {
	Fields []*factField `json:"fields"`
	// Orders lists, for each node, the index of the node's value among the values of all shapes of
	// a field. The index is -1 if the node has no value.
	Orders [][]int `json:"orders"`
	// Columns lists the values for the holes: one JSON text for each value of a shape.
	Columns []json.RawMessage `json:"columns"`
	// Missing maps, for each node, the sections that the node lacks to the reasons.
	Missing []map[facts.Section]string `json:"missing"`
	Units   map[string]any             `json:"units"` // [facts.Units]

	// orderAt and columnAt find equal orders and columns, so that each is stored once. For example,
	// a node's address is in many of its facts.
	orderAt, columnAt map[string]int
}

// factField is one field of a section on all nodes.
type factField struct {
	Section string `json:"section"`
	Name    string `json:"name"`
	// Order is an index into the table's Orders, or -1 if the field has a single value that every
	// node has.
	Order  int          `json:"order"`
	Shapes []*factShape `json:"shapes"`
}

// factShape holds values with the same structure: the same keys, and lists of the same length. For
// each value, only the parts that differ are stored.
type factShape struct {
	Count int             `json:"count"`
	Value json.RawMessage `json:"value"` // the first of these values
	Holes []*factHole     `json:"holes"`
}

// factHole is a place at which the values of a shape differ.
type factHole struct {
	At     []any `json:"at"`     // keys and indices from the top
	Column int   `json:"column"` // index into the table's Columns
}

func newFactTable(nodes []facts.Node) (*factTable, error) {
	m := emptyTable()
	m.Units = facts.Units()
	for i := range nodes {
		m.Missing = append(m.Missing, nodes[i].Missing)
	}
	for _, section := range slices.Sorted(slices.Values(facts.Sections())) { // with thousands of nodes only one section at a time fits in memory
		columns := map[string][]json.RawMessage{}
		for i := range nodes {
			fields, err := fieldsOf(&nodes[i], section)
			if err != nil {
				return nil, err
			}
			for name, value := range fields {
				if columns[name] == nil {
					columns[name] = make([]json.RawMessage, len(nodes))
				}
				columns[name][i] = value
			}
		}
		for _, name := range slices.Sorted(maps.Keys(columns)) {
			if err := m.add(string(section), name, columns[name]); err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

func emptyTable() *factTable {
	return &factTable{
		Fields: []*factField{}, Orders: [][]int{}, Columns: []json.RawMessage{}, Missing: []map[facts.Section]string{}, Units: map[string]any{},
		orderAt: map[string]int{}, columnAt: map[string]int{},
	}
}

func fieldsOf(node *facts.Node, section facts.Section) (map[string]json.RawMessage, error) {
	if !node.Has(section) {
		return nil, nil
	}
	var only facts.Facts
	only.Take(section, node.Facts)
	text, err := json.Marshal(only)
	if err != nil {
		return nil, fmt.Errorf("facts of %s: %w", node.Name, err)
	}
	var sections map[string]map[string]json.RawMessage
	if err := json.Unmarshal(text, &sections); err != nil {
		return nil, fmt.Errorf("facts of %s: %w", node.Name, err)
	}
	return sections[string(section)], nil
}

// add groups the values of all nodes by their shapes. A value is nil if the node has none.
func (m *factTable) add(section, name string, values []json.RawMessage) error {
	field := &factField{Section: section, Name: name}
	m.Fields = append(m.Fields, field)
	type place struct{ shape, row int }
	placeOf := map[string]place{}
	shapeAt := map[string]int{}
	var members [][]any
	for _, text := range values {
		if _, known := placeOf[string(text)]; known || text == nil {
			continue
		}
		value, err := decoded(text)
		if err != nil {
			return err
		}
		key := skeleton(value)
		shape, known := shapeAt[key]
		if !known {
			shape = len(members)
			shapeAt[key] = shape
			field.Shapes = append(field.Shapes, &factShape{Value: text, Holes: []*factHole{}})
			members = append(members, nil)
		}
		placeOf[string(text)] = place{shape, len(members[shape])}
		members[shape] = append(members[shape], value)
	}
	before := make([]int, len(members)) // number of values in the shapes before each
	total := 0
	for i, shape := range field.Shapes {
		before[i], shape.Count = total, len(members[i])
		total += shape.Count
		if err := m.drill(shape, nil, members[i]); err != nil {
			return err
		}
	}
	order := make([]int, len(values))
	for i, text := range values {
		order[i] = -1
		if text != nil {
			p := placeOf[string(text)]
			order[i] = before[p.shape] + p.row
		}
	}
	field.Order = m.order(order)
	return nil
}

// order returns the index of an order, or -1 if every node has the first value.
func (m *factTable) order(order []int) int {
	if !slices.ContainsFunc(order, func(at int) bool { return at != 0 }) {
		return -1
	}
	return numberOf(m.orderAt, fmt.Sprint(order), func() { m.Orders = append(m.Orders, order) })
}

// numberOf returns the index of a key. It calls put for a new key.
func numberOf(at map[string]int, key string, put func()) int {
	if known, met := at[key]; met {
		return known
	}
	put()
	at[key] = len(at)
	return at[key]
}

// decoded decodes JSON and keeps numbers as they were written.
func decoded(text []byte) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	err = decoder.Decode(&value)
	return value, err
}

// drill makes a hole in a shape wherever its values differ.
func (m *factTable) drill(shape *factShape, at []any, values []any) error {
	switch first := values[0].(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(first)) {
			if err := m.drill(shape, append(slices.Clip(at), key), text.Map(values, func(v any) any { return v.(map[string]any)[key] })); err != nil {
				return err
			}
		}
		return nil
	case []any:
		for i := range first {
			if err := m.drill(shape, append(slices.Clip(at), i), text.Map(values, func(v any) any { return v.([]any)[i] })); err != nil {
				return err
			}
		}
		return nil
	}
	if !slices.ContainsFunc(values, func(v any) bool { return v != values[0] }) {
		return nil
	}
	column, err := json.Marshal(values)
	if err != nil {
		return err
	}
	hole := &factHole{At: append([]any{}, at...)}
	hole.Column = numberOf(m.columnAt, string(column), func() { m.Columns = append(m.Columns, column) })
	shape.Holes = append(shape.Holes, hole)
	return nil
}

// skeleton returns the structure of a value without its leaves. Values of one shape have the same
// skeleton.
func skeleton(value any) string {
	var out strings.Builder
	var walk func(any)
	walk = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			out.WriteByte('{')
			for _, key := range slices.Sorted(maps.Keys(v)) {
				out.WriteString(strconv.Quote(key))
				walk(v[key])
			}
			out.WriteByte('}')
		case []any:
			out.WriteByte('[')
			for _, each := range v {
				walk(each)
			}
			out.WriteByte(']')
		default:
			out.WriteByte('.')
		}
	}
	walk(value)
	return out.String()
}
