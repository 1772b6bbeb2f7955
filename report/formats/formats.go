// SPDX-License-Identifier: Apache-2.0

// Package formats lists the ways to write a finished run, a row each. A row is all there is
// to write for a new one: help, completion, --format, -o and the tests of all formats go by it.
//
// It refuses to render anything itself, and to touch a file.
package formats

import (
	"io"
	"path/filepath"
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
	Render  func(io.Writer, checks.Report, report.Style) error

	Hosts   bool   // it lists hosts: a flag of its own asks for it
	Unread  bool   // no person can read it on a terminal
	AddedTo string // the environment variable of a file that it is put behind others in
}

// All are the formats, Text the first.
var All = []Format{
	{Name: Text, Is: "text", Render: report.Text},
	{Name: "json", Is: "JSON", Endings: []string{"json"}, Render: plain(report.JSON[checks.Report])},
	{Name: "junit", Is: "JUnit XML", Endings: []string{"xml"}, Render: plain(ci.JUnit)},
	{Name: "markdown", Is: "Markdown", Endings: []string{"md"}, Render: plain(ci.Markdown), AddedTo: "GITHUB_STEP_SUMMARY"},
	{Name: "html", Is: "a page of HTML", Endings: []string{"html", "htm"}, Render: plain(html.Write), Unread: true},
	{Name: "github", Is: "annotations of GitHub Actions", Render: plain(ci.GitHub)},
	{Name: "nagios", Is: "a status line of Nagios", Render: plain(ci.Nagios)},
	{Name: "prometheus", Is: "metrics of Prometheus", Endings: []string{"prom"}, Render: plain(ci.Prometheus)},
	{Name: GoodHosts, Is: "a hostfile of the good nodes", Render: plain(ci.GoodHosts), Hosts: true},
	{Name: BadHosts, Is: "a list of the bad nodes", Render: plain(ci.BadHosts), Hosts: true},
}

// Text is the format that is drawn where nobody asks for another.
const Text = "text"

// The lists of hosts, by the flags that ask for them.
const (
	GoodHosts = "good-hosts"
	BadHosts  = "bad-hosts"
)

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
