// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"preflight/checks"
	"preflight/report"
)

// TestSchemaIsKept reads a report of the first release with schema 1, checks it again and writes
// it. The result must have every field of that report with the same type, as docs/json.md promises.
// The file is never recorded again, because a schema that breaks it needs another number.
func TestSchemaIsKept(t *testing.T) {
	recorded, err := os.ReadFile("testdata/schema-1.json")
	if err != nil {
		t.Fatal(err)
	}
	saved, err := report.Read(bytes.NewReader(recorded))
	if err != nil {
		t.Fatal(err)
	}
	var written bytes.Buffer
	if err := report.JSON(&written, rejudge(saved, checks.DefaultPolicy())); err != nil {
		t.Fatal(err)
	}
	promised, kept := fieldsOf(t, recorded), fieldsOf(t, written.Bytes())
	for field := range promised {
		if !kept[field] {
			t.Errorf("what is written has no %s any more, which a reader of schema 1 counts on", field)
		}
	}
	if len(promised) < 300 {
		t.Errorf("only %d fields are promised", len(promised))
	}
	if checks.Schema != 1 {
		t.Errorf("of schema %d nothing is recorded: add its file beside that of 1", checks.Schema)
	}
}

// TestSchemaTakesMore checks that fields of later releases are ignored.
func TestSchemaTakesMore(t *testing.T) {
	recorded, err := os.ReadFile("testdata/schema-1.json")
	if err != nil {
		t.Fatal(err)
	}
	later := bytes.Replace(recorded, []byte(`"schema":1`), []byte(`"schema":1,"later":{"is":[1]}`), 1)
	later = bytes.ReplaceAll(later, []byte(`"facts":{`), []byte(`"facts":{"later":{"is":true},`))
	if bytes.Equal(later, recorded) {
		t.Fatal("nothing was added")
	}
	if _, err := report.Read(bytes.NewReader(later)); err != nil {
		t.Errorf("a report of a later release is refused: %v", err)
	}
}

// fieldsOf returns the paths of all values of a document, each with its type.
func fieldsOf(t *testing.T, text []byte) map[string]bool {
	t.Helper()
	var document any
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	var visit func(value any, path string)
	visit = func(value any, path string) {
		switch value := value.(type) {
		case map[string]any:
			for key, below := range value {
				visit(below, path+"."+key)
			}
		case []any:
			all[path+" list"] = true
			for _, below := range value {
				visit(below, path+"[]")
			}
		case nil: // the type is unknown, and any field may be null
		default:
			all[fmt.Sprintf("%s %T", path, value)] = true
		}
	}
	visit(document, "")
	return all
}
