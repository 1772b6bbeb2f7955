// SPDX-License-Identifier: Apache-2.0

// Package outputs writes a finished report to where a user asked for it, whole or not at all.
//
// It refuses to render, and to replace a .json file that is no report or a normalized snapshot.
package outputs

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/go-multierror"
	"golang.org/x/term"

	"preflight/cmd/preflight/internal/usage"
	"preflight/report"
	"preflight/report/formats"
)

// Output is one rendering of a report and where it goes.
type Output struct {
	Asked  string // how it was asked for: "-o junit=report.xml"
	Format string
	Path   string // "-" for standard output
}

// Printed is whether it goes to standard output.
func (o Output) Printed() bool { return o.Path == "-" }

// row is the format's in the table, an empty one for a format that there is not.
func (o Output) row() formats.Format {
	row, _ := formats.Of(o.Format)
	return row
}

// formatWord is what stands before a = and names a format, rightly or not. A path that
// looks so is written ./NAME=….
var formatWord = regexp.MustCompile(`^[A-Za-z]+$`)

// followedByFormat is a comma that parts two outputs. Any other belongs to a path.
var followedByFormat = regexp.MustCompile(`,[A-Za-z]+=`)

// isBareFormat is whether a format was named where a file was to be.
func (o Output) isBareFormat() bool {
	return !o.row().Hosts && strings.HasSuffix(o.Asked, " "+o.Path) && slices.Contains(formats.Names(), o.Path)
}

// textEndings are those of plain text, beside none at all.
var textEndings = []string{".txt", ".text", ".log", ".out"}

// formatEnding is an ending by which a file is known for one of a format. A date or a number
// is none.
var formatEnding = regexp.MustCompile(`^\.[A-Za-z]+$`)

// hasStrangeEnding is whether a file's ending promises another format than the text it would
// get for want of any that ends so: report.sarif.
func (o Output) hasStrangeEnding() bool {
	ending := strings.ToLower(filepath.Ext(o.Path))
	return o.Format == formats.Text && strings.HasSuffix(o.Asked, " "+o.Path) && formatEnding.MatchString(ending) && !slices.Contains(textEndings, ending)
}

// Of are where a report goes: every -o, which names a path, to be written in the format
// that its ending tells, else in --format, or FORMAT=PATH; the lists of hosts; and standard
// output, in --format, unless one of those says where that goes or takes standard output
// for itself. The place is where -o was said, as a person knows it.
func Of(format, place string, values []string, lists ...Output) (all []Output) {
	for _, value := range values {
		for _, one := range split(value) {
			if one != "" {
				all = append(all, parse(place, one, format))
			}
		}
	}
	for _, list := range lists {
		if list.Path != "" {
			all = append(all, list)
		}
	}
	for i := range all {
		if all[i].Path == "/dev/stdout" { // the same, by the system's name
			all[i].Path = "-"
		}
	}
	if !slices.ContainsFunc(all, func(o Output) bool { return o.Format == format || o.Printed() }) {
		all = append(all, Output{"--format " + format, format, "-"})
	}
	return all
}

// parse is the output that a text asks for, PATH or FORMAT=PATH, at a place such as -o.
func parse(place, text, format string) Output {
	o := Output{place + " " + text, cmp.Or(formats.ByEnding(text), format), text}
	if format, path, isPair := strings.Cut(text, "="); isPair && formatWord.MatchString(format) {
		o.Format, o.Path = format, path
		if _, known := formats.Of(format); !known {
			o.Format = cmp.Or(formats.ByEnding("."+format), format) // "prom" or "md"
		}
	}
	return o
}

func split(text string) (parts []string) {
	from := 0
	for _, at := range followedByFormat.FindAllStringIndex(text, -1) {
		parts = append(parts, text[from:at[0]])
		from = at[0] + 1
	}
	return append(parts, text[from:])
}

// Known refuses a text whose format there is not.
func Known(text string) error {
	for _, one := range split(text) {
		if o := parse("", one, "text"); !slices.Contains(formats.Names(), o.Format) {
			o.Asked = one // whoever asks says the place
			return o.unknownFormat(formats.Names())
		}
	}
	return nil
}

// Relative returns the outputs that a text asks for, with their paths moved. Each keeps its format.
func Relative(text string, move func(path string) string) string {
	moved := split(text)
	for i, one := range moved {
		if format, path, isPair := strings.Cut(one, "="); isPair && formatWord.MatchString(format) {
			moved[i] = format + "=" + move(path)
		} else {
			moved[i] = move(one)
		}
	}
	return strings.Join(moved, ",")
}

func distinct(outputs []Output) error {
	for i, o := range outputs {
		if o.Path == "" {
			return usage.WithHint(fmt.Errorf("%s names no file", o.Asked), "for example: %sreport", o.Asked)
		}
		at := slices.IndexFunc(outputs[:i], o.isAlso)
		switch {
		case at >= 0 && o.Printed():
			return usage.WithHint(fmt.Errorf("%s and %s both go to standard output", outputs[at].Asked, o.Asked), "name a file for one of them")
		case at >= 0:
			return usage.WithHint(fmt.Errorf("%s and %s go to the same file", outputs[at].Asked, o.Asked), "name two files")
		}
	}
	return nil
}

// isAlso is whether two outputs go to one place, by whatever names.
func (o Output) isAlso(other Output) bool {
	if o.Printed() || other.Printed() {
		return o.Path == other.Path
	}
	info, err := os.Stat(o.Path)
	known, unknown := os.Stat(other.Path)
	return o.target() == other.target() || err == nil && unknown == nil && os.SameFile(info, known)
}

// Deliver has something rendered to each output, files first: whoever reads what is
// printed may look for them. One that fails takes no other with it.
func Deliver(outputs []Output, render func(io.Writer, string, report.Style) error) error {
	var problems *multierror.Error
	printed := slices.ContainsFunc(outputs, Output.Printed)
	print := func(format string) {
		problems = multierror.Append(problems, render(os.Stdout, format, TerminalStyle(os.Stdout)))
	}
	for _, o := range outputs {
		if o.Printed() {
			continue
		}
		var text bytes.Buffer
		if err := render(&text, o.Format, report.Style{}); err != nil {
			problems = multierror.Append(problems, fmt.Errorf("%s: %w", o.Asked, err))
			continue
		}
		err := o.save(text.Bytes())
		if err != nil && !printed && !o.row().Hosts {
			printed = true // the run must not have been for nothing
			print(o.Format)
			err = fmt.Errorf("printed to standard output instead: %w", err)
		}
		problems = multierror.Append(problems, err)
	}
	for _, o := range outputs {
		if o.Printed() {
			print(o.Format)
		}
	}
	return problems.ErrorOrNil()
}

// TerminalStyle fits text to a terminal. Anything else gets plain text of
// the default width: colour only where a person looks, and never with NO_COLOR.
func TerminalStyle(file *os.File) report.Style {
	if !term.IsTerminal(int(file.Fd())) {
		return report.Style{}
	}
	style := report.Style{Color: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if width, _, err := term.GetSize(int(file.Fd())); err == nil {
		style.Width = width
	}
	return style
}
