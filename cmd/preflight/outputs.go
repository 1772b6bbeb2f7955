package main

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"preflight/report/formats"
)

// output is one rendering of a report and where it goes.
type output struct {
	said   string // how it was asked for: "-o junit=report.xml"
	format string
	path   string // "-" for standard output
}

func (o output) isPrinted() bool { return o.path == "-" }

// row is the format's in the table, an empty one for a format that there is not.
func (o output) row() formats.Format {
	row, _ := formats.Of(o.format)
	return row
}

// formatWord is what stands before a = and names a format, rightly or not. A path that
// looks so is written ./NAME=….
var formatWord = regexp.MustCompile(`^[A-Za-z]+$`)

// followedByFormat is a comma that parts two outputs. Any other belongs to a path.
var followedByFormat = regexp.MustCompile(`,[A-Za-z]+=`)

// isBareFormat is whether a format was named where a file was to be.
func (o output) isBareFormat() bool {
	return !o.row().Hosts && strings.HasSuffix(o.said, " "+o.path) && slices.Contains(formats.Names(), o.path)
}

// outputs are where the report goes: every -o, which names a path, to be written in the
// format that its ending tells, else in --format, or FORMAT=PATH; the lists of hosts; and standard output, in --format, unless
// one of those says where that goes or takes standard output for itself.
func (c Config) outputs() []output {
	var all []output
	for _, value := range c.Output {
		for _, one := range partedBefore(followedByFormat, value) {
			if one == "" {
				continue
			}
			all = append(all, outputOf(c.said("output"), one, c.Format))
		}
	}
	for _, list := range []output{{c.said("good_hosts") + " " + c.GoodHosts, formats.GoodHosts, c.GoodHosts}, {c.said("bad_hosts") + " " + c.BadHosts, formats.BadHosts, c.BadHosts}} {
		if list.path != "" {
			all = append(all, list)
		}
	}
	for i := range all {
		if all[i].path == "/dev/stdout" { // the same, by the system's name
			all[i].path = "-"
		}
	}
	if !slices.ContainsFunc(all, func(o output) bool { return o.format == c.Format || o.isPrinted() }) {
		all = append(all, output{said: "--format " + c.Format, format: c.Format, path: "-"})
	}
	return all
}

// outputOf is the output that a text asks for, PATH or FORMAT=PATH, at a place such as -o.
func outputOf(place, text, format string) output {
	o := output{said: place + " " + text, format: cmp.Or(formats.ByEnding(text), format), path: text}
	if format, path, isPair := strings.Cut(text, "="); isPair && formatWord.MatchString(format) {
		o.format, o.path = format, path
	}
	return o
}

// partedBefore cuts text at the commas that a pattern begins with.
func partedBefore(pattern *regexp.Regexp, text string) (parts []string) {
	from := 0
	for _, at := range pattern.FindAllStringIndex(text, -1) {
		parts = append(parts, text[from:at[0]])
		from = at[0] + 1
	}
	return append(parts, text[from:])
}

// distinct refuses outputs that would overwrite each other.
func distinct(outputs []output) error {
	for i, o := range outputs {
		if o.path == "" {
			return withHint(fmt.Errorf("%s names no file", o.said), "as in %sreport", o.said)
		}
		at := slices.IndexFunc(outputs[:i], o.isAlso)
		switch {
		case at >= 0 && o.isPrinted():
			return withHint(fmt.Errorf("%s and %s both go to standard output", outputs[at].said, o.said), "name a file for one of them")
		case at >= 0:
			return withHint(fmt.Errorf("%s and %s go to one file", outputs[at].said, o.said), "name two files")
		}
	}
	return nil
}

// isAlso is whether two outputs go to one place, by whatever names.
func (o output) isAlso(other output) bool {
	if o.isPrinted() || other.isPrinted() {
		return o.path == other.path
	}
	info, err := os.Stat(o.path)
	known, unknown := os.Stat(other.path)
	return o.target() == other.target() || err == nil && unknown == nil && os.SameFile(info, known)
}
