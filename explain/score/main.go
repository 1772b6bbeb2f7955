// Command score holds explain against logs whose causes are known: a directory
// with logs/, labels.tsv (file, cause) and ambiguous.tsv (file, other causes that
// the text permits, too). It prints every miss and a table of causes.
package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"preflight/explain"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: score DIRECTORY (with logs/, labels.tsv and ambiguous.tsv)")
		os.Exit(2)
	}
	if err := score(os.Stdout, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "score:", err)
		os.Exit(1)
	}
}

// none is the label of a log that nothing is to be blamed for.
const none = "none"

type tally struct{ logs, right int }

func score(w io.Writer, corpus string) error {
	catalogue, err := explain.Load()
	if err != nil {
		return err
	}
	labels, err := table(filepath.Join(corpus, "labels.tsv"))
	if err != nil {
		return err
	}
	ambiguous, err := table(filepath.Join(corpus, "ambiguous.tsv"))
	if err != nil {
		return err
	}
	perCause, all := map[string]tally{}, tally{}
	for _, file := range slices.Sorted(maps.Keys(labels)) {
		path := filepath.Join(corpus, "logs", file)
		report, err := catalogue.Explain([]explain.Source{{Name: file, Open: func() (io.ReadCloser, error) { return os.Open(path) }}})
		if err != nil {
			return err
		}
		got := none
		if len(report.Causes) > 0 {
			got = report.Causes[0].Cause
		}
		want := labels[file]
		right := got == want || slices.Contains(strings.Split(ambiguous[file], ","), got)
		count := perCause[want]
		count.logs, all.logs = count.logs+1, all.logs+1
		if right {
			count.right, all.right = count.right+1, all.right+1
		} else {
			fmt.Fprintf(w, "MISS %s: %s, is %s\n", file, got, want)
		}
		perCause[want] = count
	}
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, cause := range slices.Sorted(maps.Keys(perCause)) {
		fmt.Fprintf(columns, "%s\t%d of %d\n", cause, perCause[cause].right, perCause[cause].logs)
	}
	fmt.Fprintf(columns, "all\t%d of %d\t%.1f %%\n", all.right, all.logs, 100*float64(all.right)/float64(max(1, all.logs)))
	return columns.Flush()
}

// table reads the first two columns of a file with a header.
func table(path string) (map[string]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	reader := csv.NewReader(file)
	reader.Comma, reader.LazyQuotes, reader.FieldsPerRecord = '\t', true, -1
	rows, err := reader.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	columns := map[string]string{}
	for _, row := range rows[min(1, len(rows)):] {
		if len(row) > 1 {
			columns[row[0]] = row[1]
		}
	}
	return columns, nil
}
