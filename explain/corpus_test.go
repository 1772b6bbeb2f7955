package explain

import (
	"encoding/csv"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRealLogs: of logs that were produced for real, with something planted, the
// planted cause is named, or what else the log alone permits.
func TestRealLogs(t *testing.T) {
	also := rows(t, "testdata/ambiguous.tsv")
	labels := rows(t, "testdata/labels.tsv")
	for file, want := range labels {
		r, err := catalogue(t).Explain([]Source{{file, func() (io.ReadCloser, error) { return os.Open(filepath.Join("testdata/logs", file)) }}})
		if err != nil {
			t.Fatal(err)
		}
		got := "none"
		if len(r.Causes) > 0 {
			got = r.Causes[0].Cause
		}
		if got != want && !slices.Contains(strings.Split(also[file], ","), got) {
			t.Errorf("%s: %s, is %s", file, got, want)
		}
	}
	logs, err := os.ReadDir("testdata/logs")
	if err != nil || len(logs) != len(labels) {
		t.Errorf("%d logs and %d labels: %v", len(logs), len(labels), err)
	}
}

// rows are the first two columns of a table.
func rows(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	table := csv.NewReader(file)
	table.Comma, table.FieldsPerRecord = '\t', -1
	all, err := table.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	columns := map[string]string{}
	for _, row := range all[1:] {
		columns[row[0]] = row[1]
	}
	return columns
}
