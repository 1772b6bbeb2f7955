// SPDX-License-Identifier: Apache-2.0

// Command score tests explain with logs whose causes are known. A corpus is a directory with logs/,
// labels.tsv (file, cause) and ambiguous.tsv (file, other causes that the text permits). score
// prints every wrong answer, a table of causes, and the worst mistakes. The worst mistakes are logs
// of failures that passed, and healthy logs that got a cause. Then it prints which share of the
// examples and logs keep their cause if their text is wrapped, cut, coloured or prefixed.
package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
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

func score(w io.Writer, corpus string) error {
	catalogue, err := explain.Load()
	if err != nil {
		return err
	}
	trials, err := try(catalogue, os.DirFS(corpus))
	if err != nil {
		return err
	}
	logs, right, all := map[string]int{}, map[string]int{}, 0
	passed, blamed := 0, 0
	for _, trial := range trials {
		if trial.passed() {
			passed++
		}
		if trial.blamed() {
			blamed++
		}
		logs[trial.want]++
		if trial.right {
			right[trial.want]++
			all++
		}
		switch {
		case !trial.right:
			fmt.Fprintf(w, "MISS %s: %s, is %s\n", trial.file, trial.got, trial.want)
		case trial.got == program:
			fmt.Fprintf(w, "program %s: its own failure\n", trial.file)
		}
	}
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, cause := range slices.Sorted(maps.Keys(logs)) {
		fmt.Fprintf(columns, "%s\t%d of %d\n", cause, right[cause], logs[cause])
	}
	fmt.Fprintf(columns, "all\t%d of %d\t%.1f %%\n", all, len(trials), 100*float64(all)/float64(max(1, len(trials))))
	fmt.Fprintf(columns, "failing logs passed\t%d\n", passed)
	fmt.Fprintf(columns, "healthy logs blamed\t%d\n\n", blamed)
	if err := columns.Flush(); err != nil {
		return err
	}
	m := newMatrix()
	m.examples(catalogue)
	if err := m.logs(catalogue, os.DirFS(corpus)); err != nil {
		return err
	}
	if err := m.write(w); err != nil {
		return err
	}
	lists, err := covered(os.DirFS("explain/testdata/messages"))
	if err != nil {
		return err
	}
	return writeCoverage(w, lists)
}

// trial is a log with a known cause, and the cause that explain finds in the log.
type trial struct {
	file  string
	want  string // a cause; none if the log has no cause in the catalogue; healthy if nothing failed
	got   string // a cause, program, unknown, nothing or healthy
	right bool   // got equals want or is another cause that the log permits; if want is none, got is not a cause
}

// passed reports whether explain called the log of a failure healthy.
func (t trial) passed() bool { return t.got == healthy && t.want != healthy && !t.right }

func (t trial) blamed() bool { return t.got != healthy && t.got != nothing && t.want == healthy }

// try runs explain on each log of a corpus separately. logs/ contains the logs. labels.tsv has the
// cause of each log (file, cause, …). ambiguous.tsv has other permitted causes (file, causes
// separated by commas). Both tables start with a header.
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
			nobody[one.got] && (one.want == none || slices.Contains(also, none)) ||
			one.got == program && one.want == unknown ||
			one.got == nothing && (one.want == unknown || one.want == healthy)
		trials = append(trials, one)
	}
	return trials, nil
}

const (
	none    = "none"
	program = "program" // the program failed by itself
	unknown = "unknown" // the launch failed, and the cause is unknown
	nothing = "nothing" // no known failure, and no sign of success
	healthy = "healthy"
)

// nobody holds the results that name no cause.
var nobody = map[string]bool{program: true, unknown: true, nothing: true, healthy: true}

// verdict returns the root cause of a report.
func verdict(r explain.Report) string {
	switch {
	case len(r.Causes) > 0:
		return r.Causes[0].Cause
	case r.Program != nil:
		return program
	case r.Unexplained != nil || len(r.Consequences) > 0:
		return unknown
	case r.ExitCode != 0:
		return nothing
	}
	return healthy
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
