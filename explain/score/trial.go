package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"preflight/explain"
)

// trial is one log whose cause is known, and what is told of it.
type trial struct {
	file  string
	want  string // a cause, or none
	got   string // a cause, program or none
	right bool   // the same, or another cause that the log alone permits; a program's own failure is none
}

// try explains each log of a corpus by itself: logs/ holds them, labels.tsv the cause
// of each (file, cause, …), ambiguous.tsv what else may be read from some (file, causes
// with commas between). Both tables begin with a header.
func try(c *explain.Catalogue, corpus fs.FS) ([]trial, error) {
	labels, err := table(corpus, "labels.tsv")
	if err != nil {
		return nil, err
	}
	ambiguous, err := table(corpus, "ambiguous.tsv")
	if err != nil {
		return nil, err
	}
	var trials []trial
	for _, file := range slices.Sorted(maps.Keys(labels)) {
		report := c.Explain([]explain.Source{{Name: file, Open: func() (io.ReadCloser, error) { return corpus.Open("logs/" + file) }}})
		if len(report.Unread) > 0 {
			return nil, fmt.Errorf("%s: %s", file, report.Unread[0].Reason)
		}
		one := trial{file: file, want: labels[file], got: verdict(report)}
		also := strings.Split(ambiguous[file], ",")
		one.right = one.got == one.want || slices.Contains(also, one.got) ||
			one.got == program && (one.want == none || slices.Contains(also, none))
		trials = append(trials, one)
	}
	return trials, nil
}

const (
	none    = "none"
	program = "program" // failed by itself
)

// verdict is the root cause that a report tells.
func verdict(r explain.Report) string {
	switch {
	case len(r.Causes) > 0:
		return r.Causes[0].Cause
	case r.Program != nil:
		return program
	}
	return none
}

// table reads the first two columns of a file with a header.
func table(files fs.FS, name string) (map[string]string, error) {
	file, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	reader := csv.NewReader(file)
	reader.Comma, reader.LazyQuotes, reader.FieldsPerRecord = '\t', true, -1
	rows, err := reader.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	columns := map[string]string{}
	for _, row := range rows[min(1, len(rows)):] {
		if len(row) > 1 {
			columns[row[0]] = row[1]
		}
	}
	return columns, nil
}
