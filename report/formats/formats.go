// SPDX-License-Identifier: Apache-2.0

// Package formats lists the ways to write a finished run, a row each. A row is all there is
// to write for a new one: help, completion, --format, -o, what is written over and the
// tests of all formats go by it.
//
// It refuses to render anything itself, and to touch a file.
package formats

import (
	"bufio"
	"encoding/json"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/report"
	"preflight/report/ci"
	"preflight/report/html"
)

// Format is one way to write a finished run.
type Format struct {
	Name    string   // as --format takes it, or the flag that asks for it
	Is      string   // what it is, in words for a person
	Endings []string // of files that are written in it where no format is named
	// Start is how a file of ours begins, by which an earlier run's is known and written
	// over. It must not match what somebody else might have written.
	Start  *regexp.Regexp
	Render func(io.Writer, checks.Report, report.Style) error

	Hosts   bool   // it lists hosts: a flag of its own asks for it
	Facts   bool   // it holds the facts of a run, which only another run would bring again
	Unread  bool   // no person can read it on a terminal
	AddedTo string // the environment variable of a file that it is put behind others in
}

// All are the formats, Text the first.
var All = []Format{
	{Name: Text, Is: "text", Start: textStart, Render: report.Text},
	{Name: "json", Is: "JSON", Endings: []string{"json"}, Start: jsonStart, Render: plain(report.JSON[checks.Report]), Facts: true},
	{Name: "junit", Is: "JUnit XML", Endings: []string{"xml"}, Start: begins(ci.JUnitStart), Render: plain(ci.JUnit)},
	{Name: "markdown", Is: "Markdown", Endings: []string{"md"}, Start: ci.MarkdownStart, Render: plain(ci.Markdown), AddedTo: "GITHUB_STEP_SUMMARY"},
	{Name: "html", Is: "a page of HTML", Endings: []string{"html", "htm"}, Start: begins(html.Start), Render: plain(html.Write), Unread: true},
	{Name: "github", Is: "annotations of GitHub Actions", Start: begins(ci.GitHubStart), Render: plain(ci.GitHub)},
	{Name: "nagios", Is: "a status line of Nagios", Start: ci.NagiosLine, Render: plain(ci.Nagios)},
	{Name: "prometheus", Is: "metrics of Prometheus", Endings: []string{"prom"}, Start: begins(ci.PrometheusStart), Render: plain(ci.Prometheus)},
	{Name: GoodHosts, Is: "a hostfile of the good nodes", Start: begins(ci.GoodHostsStart), Render: plain(ci.GoodHosts), Hosts: true},
	{Name: BadHosts, Is: "a list of the bad nodes", Start: begins(ci.BadHostsStart), Render: plain(ci.BadHosts), Hosts: true},
}

// Text is the format that is drawn where nobody asks for another.
const Text = "text"

// The lists of hosts, by the flags that ask for them.
const (
	GoodHosts = "good-hosts"
	BadHosts  = "bad-hosts"
)

var (
	// textStart is a verdict, and the line of what was looked at.
	textStart = regexp.MustCompile(`^(?:FAIL|WARN|UNKNOWN|PASS|SKIP)(?:  [^\n]*)?\n\d+ (?:node|file)s?,`)
	jsonStart = regexp.MustCompile(`^\{\s*"schema"\s*:\s*\d`)
)

func begins(text string) *regexp.Regexp { return regexp.MustCompile("^" + regexp.QuoteMeta(text)) }

// plain is a renderer that draws alike wherever it goes.
func plain(render func(io.Writer, checks.Report) error) func(io.Writer, checks.Report, report.Style) error {
	return func(w io.Writer, r checks.Report, _ report.Style) error { return render(w, r) }
}

// Of is the format of a name.
func Of(name string) (format Format, known bool) {
	at := slices.IndexFunc(All, func(f Format) bool { return f.Name == name })
	if at < 0 {
		return Format{}, false
	}
	return All[at], true
}

// Names are what --format takes.
func Names() (names []string) {
	for _, f := range All {
		if !f.Hosts {
			names = append(names, f.Name)
		}
	}
	return names
}

// ByEnding is the name of the format that a file's name tells, "" for none.
func ByEnding(path string) string {
	ending := strings.ToLower(strings.TrimPrefix(filepath.Ext(path), "."))
	at := slices.IndexFunc(All, func(f Format) bool { return slices.Contains(f.Endings, ending) })
	if at < 0 {
		return ""
	}
	return All[at].Name
}

// Kept is what is lost with a file that is written over, the least first. What is worth
// as much or more may replace it.
type Kept int

const (
	Foreign            Kept = iota // a user's own: not to be written over at all
	Rendering                      // a report that judging a run again would bring back, a list of hosts, or nothing
	SavedRun                       // what nodes reported, which only another run would bring
	NormalizedSnapshot             // what [report.Normalized] writes, to be committed and reviewed
)

// Worth is what a file of the format will be.
func (f Format) Worth() Kept {
	if f.Facts {
		return SavedRun
	}
	return Rendering
}

// mostOfStart is how much of a file is looked at: more than the longest status line.
const mostOfStart = 1 << 14

// Wrote is what a file holds: a report of any schema in any of our formats or a list of
// hosts of ours, or else what is [Foreign]. A file that cannot be read is that, too.
func Wrote(in io.Reader) Kept {
	buffered := bufio.NewReaderSize(in, mostOfStart)
	start, err := buffered.Peek(mostOfStart)
	switch {
	case err == nil:
		start = append(slices.Clip(start), "\n…"...) // no pattern is to take it for the end
	case err != io.EOF:
		return Foreign
	case len(start) == 0:
		return Rendering
	}
	at := slices.IndexFunc(All, func(f Format) bool { return f.Start.Match(start) })
	switch {
	case at < 0:
		return Foreign
	case All[at].Facts:
		return keptInJSON(buffered)
	}
	return Rendering
}

// keptInJSON looks no further than the schema, which JSON writes first, the key behind it,
// by which a normalized snapshot is known, and the nodes. Of a file that was cut short
// nobody reads any.
func keptInJSON(in io.Reader) Kept {
	decoder := json.NewDecoder(in)
	if _, err := decoder.Token(); err != nil {
		return Foreign
	}
	for number := 0; decoder.More(); number++ {
		key, err := decoder.Token()
		if err != nil {
			break
		}
		if key == "nodes" {
			if begin, err := decoder.Token(); err == nil && begin == json.Delim('[') && decoder.More() {
				return SavedRun
			}
			break
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			break
		}
		if number == 1 && key == "normalized" && string(value) == "true" {
			return NormalizedSnapshot
		}
	}
	return Rendering
}
