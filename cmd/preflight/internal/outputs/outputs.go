// SPDX-License-Identifier: Apache-2.0

// Package outputs writes a finished report to the files that a user asked for. A file is written
// completely or not at all.
//
// The package does not render reports. It never replaces a .json file that is not a report, or a
// normalized snapshot.
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

// Output is one format of a report and the file to which the report is written.
type Output struct {
	Asked  string // what the user typed: "-o junit=report.xml"
	Format string
	Path   string // "-" for standard output
}

// Printed reports whether the output goes to standard output.
func (o Output) Printed() bool { return o.Path == "-" }

// row returns the format's row in the table of formats, an empty row for an unknown format.
func (o Output) row() formats.Format {
	row, _ := formats.Of(o.Format)
	return row
}

// formatWord matches a word before "=" that is meant to be a format, known or not. A path that
// begins with such a word and "=" must be written as ./NAME=….
var formatWord = regexp.MustCompile(`^[A-Za-z]+$`)

// followedByFormat matches a comma between two outputs. Any other comma belongs to a path.
var followedByFormat = regexp.MustCompile(`,[A-Za-z]+=`)

// isBareFormat reports whether the user gave a format instead of a file.
func (o Output) isBareFormat() bool {
	return !o.row().Hosts && strings.HasSuffix(o.Asked, " "+o.Path) && slices.Contains(formats.Names(), o.Path)
}

// textEndings lists the extensions of plain text. A file without an extension is plain text, too.
var textEndings = []string{".txt", ".text", ".log", ".out"}

// formatEnding matches an extension that may stand for a format, which a date or a number does not.
var formatEnding = regexp.MustCompile(`^\.[A-Za-z]+$`)

// hasStrangeEnding reports whether a file would get text although its extension stands for another,
// unknown format: report.sarif.
func (o Output) hasStrangeEnding() bool {
	ending := strings.ToLower(filepath.Ext(o.Path))
	return o.Format == formats.Text && strings.HasSuffix(o.Asked, " "+o.Path) && formatEnding.MatchString(ending) && !slices.Contains(textEndings, ending)
}

// Of returns the outputs of a report. Every -o is PATH or FORMAT=PATH. The extension of a PATH
// selects the format. If the extension is unknown, the format is that of --format. lists are the
// host lists. Of adds standard output, in the format of --format, unless another output has that
// format or goes to standard output. place says where -o was set, in words for the user.
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
		if all[i].Path == "/dev/stdout" { // the system's name for standard output
			all[i].Path = "-"
		}
	}
	if !slices.ContainsFunc(all, func(o Output) bool { return o.Format == format || o.Printed() }) {
		all = append(all, Output{"--format " + format, format, "-"})
	}
	return all
}

// parse returns the output for PATH or FORMAT=PATH, which was set at place.
func parse(place, text, format string) Output {
	o := Output{place + " " + text, cmp.Or(formats.ByEnding(text), format), text}
	if format, path, isPair := strings.Cut(text, "="); isPair && formatWord.MatchString(format) {
		o.Format, o.Path = format, path
		if _, known := formats.Of(format); !known {
			o.Format = cmp.Or(formats.ByEnding("."+format), format) // an extension works like a name: "prom", "md"
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

// Known returns an error for outputs with an unknown format.
func Known(text string) error {
	for _, one := range split(text) {
		if o := parse("", one, "text"); !slices.Contains(formats.Names(), o.Format) {
			o.Asked = one // the caller adds the place
			return o.unknownFormat(formats.Names())
		}
	}
	return nil
}

// Relative returns the text of outputs with their paths changed by move. It does not change the
// formats.
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

// isAlso reports whether two outputs go to the same file, even if its names differ.
func (o Output) isAlso(other Output) bool {
	if o.Printed() || other.Printed() {
		return o.Path == other.Path
	}
	info, err := os.Stat(o.Path)
	known, unknown := os.Stat(other.Path)
	return o.target() == other.target() || err == nil && unknown == nil && os.SameFile(info, known)
}

// Deliver renders and writes every output. It writes files first, because a reader of the printed
// report may look for them. If an output fails, Deliver continues with the others.
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
			printed = true // the user must not lose the report
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

// TerminalStyle returns the style for a file. Only a terminal gets colour (unless NO_COLOR is set)
// and its own width.
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
