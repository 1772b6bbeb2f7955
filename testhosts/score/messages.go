// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"text/tabwriter"
)

// coverage is how many messages of a program have a meaning: a cause, symptom, harmless or program.
type coverage struct {
	program      string // with " 2.4" if only the messages of this release are counted
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
		rows, err := messages(lists, name)
		if err != nil {
			return nil, err
		}
		program := strings.TrimSuffix(path.Base(name), ".tsv")
		all = append(all, count(program, rows))
		releases := releasesOf(rows)
		for i := range releases {
			of := slices.DeleteFunc(slices.Clone(rows), func(row []string) bool {
				first, last, more := strings.Cut(row[0], "..")
				if !more {
					last = first
				}
				return slices.Index(releases, first) > i || slices.Index(releases, last) < i
			})
			if len(releases) > 1 {
				all = append(all, count(program+" "+releases[i], of))
			}
		}
	}
	return all, nil
}

// messages returns the rows of a list, without its header. The file uses tabs and no quoting.
func messages(lists fs.FS, name string) ([][]string, error) {
	text, err := fs.ReadFile(lists, name)
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for line := range strings.Lines(string(text)) {
		rows = append(rows, strings.Split(strings.TrimRight(line, "\n"), "\t"))
	}
	return rows[min(1, len(rows)):], nil
}

func count(program string, rows [][]string) coverage {
	one := coverage{program: program}
	for _, row := range rows {
		if one.all++; len(row) == 3 && row[1] != "" {
			one.classed++
		}
	}
	return one
}

// releasesOf returns the releases that the first column names, such as 2.4..2.15, the oldest first.
func releasesOf(rows [][]string) []string {
	seen := map[string]bool{}
	for _, row := range rows {
		for release := range strings.SplitSeq(row[0], "..") {
			seen[release] = true
		}
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b string) int {
		return slices.CompareFunc(strings.FieldsFunc(a, apart), strings.FieldsFunc(b, apart), func(a, b string) int {
			return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) // numbers without leading zeros
		})
	})
}

func apart(r rune) bool { return r == '.' || r == '-' }

func writeCoverage(w io.Writer, all []coverage) error {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "\nmessages with a meaning")
	for _, one := range all {
		fmt.Fprintf(columns, "%s\t%d of %d\t%.1f %%\n", one.program, one.classed, one.all, one.share())
	}
	return columns.Flush()
}
