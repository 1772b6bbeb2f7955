// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks/agreement"
	"preflight/checks/catalogue"
	"preflight/explain"
	"preflight/report"
)

// TestGeneratedDocs checks that the generated pages are what `make docs` would write.
func TestGeneratedDocs(t *testing.T) {
	causes, err := explain.Load()
	if err != nil {
		t.Fatal(err)
	}
	for page, write := range map[string]func(io.Writer) error{
		"checks.md":     func(w io.Writer) error { return report.CatalogueMarkdown(w, catalogue.Catalogue) },
		"facts.md":      func(w io.Writer) error { return report.FactNamesMarkdown(w, agreement.Stateable()) },
		"causes.md":     func(w io.Writer) error { return report.CausesMarkdown(w, causes) },
		"from-error.md": func(w io.Writer) error { return report.MessagesMarkdown(w, causes) },
		"cli.md":        func(w io.Writer) error { return helpMarkdown(w, rootCommand()) },
	} {
		written, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		if err := write(&want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.String(), string(written)); diff != "" {
			t.Errorf("docs/%s is stale: run make docs (-want +got):\n%s", page, diff)
		}
	}
}
