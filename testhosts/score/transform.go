// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"preflight/explain"
)

// transformations lists what terminals, launchers, log collectors and people do to the text of a
// log. None of it may change the cause.
var transformations = []struct {
	name  string
	apply func(text string) string
}{
	{"no prefix", lineByLine(func(_ int, line string) string { return undecorated(line) })},
	{"[rank3]:", prefixed("[rank3]: ")},
	{"3:", prefixed("3: ")},
	{"[1,3]", prefixed("[1,3]<stderr>:")},
	{"node-7:", prefixed("node-7: ")},
	{"(pid=)", prefixed("(TrainWorker pid=4711, ip=10.0.0.7) ")},
	{"time", lineByLine(func(i int, line string) string {
		return fmt.Sprintf("2026-11-21T10:01:%02d.%06dZ %s", i/100%60, i%100, line)
	})},
	{"colour", lineByLine(func(_ int, line string) string { return "\x1b[1;31m" + line + "\x1b[0m" })},
	{"80 wide", wrapped(80)},
	{"120 wide", wrapped(120)},
	{"start cut", func(text string) string { return text[runes(text, 5):] }},
	{"end cut", func(text string) string {
		text = strings.TrimRight(text, "\n")
		cut := runes(text, utf8.RuneCountInString(text)-5)
		return text[:cut] + "\n"
	}},
	{"JSON", lineByLine(func(i int, line string) string {
		quoted, _ := json.Marshal(line + "\n")
		return fmt.Sprintf(`{"log":%s,"stream":"stderr","time":"2026-11-21T10:01:%02d.000000001Z"}`, quoted, i/100%60)
	})},
	{"CRLF", lineByLine(func(_ int, line string) string { return line + "\r" })},
	{"tabs", func(text string) string { return strings.ReplaceAll(text, " ", "\t") }},
	{"two ranks", lineByLine(func(_ int, line string) string { return "[rank2]: " + line + "\n[rank3]: " + line })},
}

func lineByLine(change func(i int, line string) string) func(text string) string {
	return func(text string) string {
		var all strings.Builder
		i := 0
		for line := range strings.Lines(text) {
			all.WriteString(change(i, strings.TrimRight(line, "\r\n")) + "\n")
			i++
		}
		return all.String()
	}
}

func prefixed(prefix string) func(text string) string {
	return lineByLine(func(_ int, line string) string { return prefix + line })
}

// wrapped breaks lines as a terminal does, in the middle of words.
func wrapped(width int) func(text string) string {
	return lineByLine(func(_ int, line string) string {
		var rows []string
		for utf8.RuneCountInString(line) > width {
			rows, line = append(rows, line[:runes(line, width)]), line[runes(line, width):]
		}
		return strings.Join(append(rows, line), "\n")
	})
}

// runes returns the length in bytes of the first n characters.
func runes(text string, n int) int {
	for i := range text {
		if n--; n < 0 {
			return i
		}
	}
	return len(text)
}

// added matches what NCCL, glog and Python's logging put before a message.
var added = regexp.MustCompile(`^(?:[\w/]+\.(?:cc|cpp|h):\d+ (?:\(\w+\) )?NCCL WARN |\[[EWIF][\d .]*\w+\.(?:cpp|hpp):\d+\] (?:\[c10d\] )?|ERROR:[\w.]+:)`)

func undecorated(line string) string { return added.ReplaceAllString(explain.Undecorated(line), "") }

// shortest is the number of characters below which a text does not bear to be cut.
const shortest = 30

// cell counts texts whose cause stays the same after a transformation.
type cell struct{ kept, all int }

// matrix holds the cells by row and transformation. A row is a file of signatures or a corpus.
type matrix struct {
	rows  map[string][]cell
	total cell
	lost  []string // what lost its cause
}

func newMatrix() *matrix { return &matrix{rows: map[string][]cell{}} }

// add transforms a text in each way, and counts the transformations that keep the verdict.
func (m *matrix) add(c *explain.Catalogue, row, name, text string) {
	want := verdictOn(c, text)
	if m.rows[row] == nil {
		m.rows[row] = make([]cell, len(transformations))
	}
	for i, t := range transformations {
		if strings.HasSuffix(t.name, "cut") && utf8.RuneCountInString(text) < shortest {
			continue
		}
		m.rows[row][i].all++
		m.total.all++
		if got := verdictOn(c, t.apply(text)); got == want {
			m.rows[row][i].kept++
			m.total.kept++
		} else {
			m.lost = append(m.lost, fmt.Sprintf("%s: %s, %s: %s", name, want, t.name, got))
		}
	}
}

func verdictOn(c *explain.Catalogue, text string) string {
	return verdict(c.Explain([]explain.Source{{Name: "log", Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(text)), nil
	}}}))
}

// examples adds the example of each signature that proves or suggests a cause.
func (m *matrix) examples(c *explain.Catalogue) {
	for _, family := range c.Families {
		for _, s := range family.Signatures {
			for _, example := range s.Examples {
				if s.Cause != "" || s.Kind == explain.Program {
					m.add(c, family.Name, s.ID, example+"\n")
				}
			}
		}
	}
}

// logs adds the logs of a corpus.
func (m *matrix) logs(c *explain.Catalogue, corpus fs.FS) error {
	labels, err := table(corpus, "labels.tsv")
	if err != nil {
		return err
	}
	for _, file := range slices.Sorted(maps.Keys(labels)) {
		text, err := fs.ReadFile(corpus, "logs/"+file)
		if err != nil {
			return err
		}
		m.add(c, "(logs)", file, string(text))
	}
	return nil
}

// leastKept is the share of cells in percent that must keep their cause.
const leastKept = 99

// write prints the share of each cell that keeps its cause. "." means all.
func (m *matrix) write(w io.Writer) error {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(columns, "kept after, in %")
	for _, t := range transformations {
		fmt.Fprint(columns, "\t"+t.name)
	}
	fmt.Fprintln(columns)
	for _, row := range slices.Sorted(maps.Keys(m.rows)) {
		fmt.Fprint(columns, row)
		for _, c := range m.rows[row] {
			share := "."
			if c.kept < c.all {
				share = fmt.Sprintf("%.0f", 100*float64(c.kept)/float64(c.all))
			}
			fmt.Fprint(columns, "\t"+share)
		}
		fmt.Fprintln(columns)
	}
	fmt.Fprintf(columns, "all cells\t%d of %d\t%.2f %%\n", m.total.kept, m.total.all, m.share())
	return columns.Flush()
}

func (m *matrix) share() float64 { return 100 * float64(m.total.kept) / float64(max(1, m.total.all)) }
