package explain

import (
	"encoding/csv"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// Trial is one log whose cause is known, and what is told of it.
type Trial struct {
	File  string
	Want  string // a cause, or none
	Got   string // as Report.Verdict
	Right bool   // the same, or another cause that the log alone permits; a program's own failure is none
}

// Try explains each log of a corpus by itself: logs/ holds them, labels.tsv the cause
// of each (file, cause, …), ambiguous.tsv what else may be read from some (file, causes
// with commas between). Both tables begin with a header.
func (c *Catalogue) Try(corpus fs.FS) ([]Trial, error) {
	labels, err := table(corpus, "labels.tsv")
	if err != nil {
		return nil, err
	}
	ambiguous, err := table(corpus, "ambiguous.tsv")
	if err != nil {
		return nil, err
	}
	var trials []Trial
	for _, file := range slices.Sorted(maps.Keys(labels)) {
		report := c.Explain([]Source{{file, func() (io.ReadCloser, error) { return corpus.Open("logs/" + file) }}})
		if len(report.Unread) > 0 {
			return nil, fmt.Errorf("%s: %s", file, report.Unread[0].Reason)
		}
		trial := Trial{File: file, Want: labels[file], Got: report.Verdict()}
		trial.Right = trial.Got == trial.Want || slices.Contains(strings.Split(ambiguous[file], ","), trial.Got) ||
			trial.Got == "program" && (trial.Want == "none" || slices.Contains(strings.Split(ambiguous[file], ","), "none"))
		trials = append(trials, trial)
	}
	return trials, nil
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
