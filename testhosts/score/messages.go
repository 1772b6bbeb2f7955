// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"text/tabwriter"
)

// coverage is how many messages of a program have a meaning: a cause, symptom, harmless or program.
type coverage struct {
	program      string
	classed, all int
}

func (c coverage) share() float64 { return 100 * float64(c.classed) / float64(max(1, c.all)) }

// covered reads the lists of messages that programs can print, one file for each program: the
// releases that have the message, its meaning, and a piece of its text.
func covered(lists fs.FS) ([]coverage, error) {
	files, err := fs.Glob(lists, "*.tsv")
	if err != nil {
		return nil, err
	}
	var all []coverage
	for _, name := range files {
		text, err := fs.ReadFile(lists, name)
		if err != nil {
			return nil, err
		}
		reader := csv.NewReader(strings.NewReader(string(text)))
		reader.Comma, reader.LazyQuotes, reader.FieldsPerRecord = '\t', true, -1
		rows, err := reader.ReadAll()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		one := coverage{program: strings.TrimSuffix(path.Base(name), ".tsv")}
		for _, row := range rows[min(1, len(rows)):] {
			if one.all++; len(row) == 3 && row[1] != "" {
				one.classed++
			}
		}
		all = append(all, one)
	}
	return all, nil
}

func writeCoverage(w io.Writer, all []coverage) error {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "\nmessages with a meaning")
	for _, one := range all {
		fmt.Fprintf(columns, "%s\t%d of %d\t%.1f %%\n", one.program, one.classed, one.all, one.share())
	}
	return columns.Flush()
}
