// SPDX-License-Identifier: Apache-2.0

// Package formats lists the formats of a finished run. A new format needs only a row here: help,
// completion, --format, -o and the tests of all formats use the list.
//
// The package renders nothing itself, and it does not read or write files.
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
	Name    string   // the value of --format, or the flag that selects it
	Is      string   // a description for a person
	Endings []string // file name endings that select this format
	Render  func(io.Writer, checks.Report, report.Style) error

	Hosts   bool   // the format lists hosts and has its own flag
	Unread  bool   // people cannot read the format on a terminal
	AddedTo string // name of the environment variable with the file to which the output is appended
}

// All lists the formats. Text is the first.
var All = []Format{
	{Name: Text, Is: "text", Render: report.Text},
	{Name: "json", Is: "JSON", Endings: []string{"json"}, Render: plain(report.JSON[checks.Report])},
	{Name: "junit", Is: "JUnit XML", Endings: []string{"xml"}, Render: plain(ci.JUnit)},
	{Name: "markdown", Is: "Markdown", Endings: []string{"md"}, Render: plain(ci.Markdown), AddedTo: "GITHUB_STEP_SUMMARY"},
	{Name: "html", Is: "an HTML page", Endings: []string{"html", "htm"}, Render: plain(html.Write), Unread: true},
	{Name: "github", Is: "GitHub Actions annotations", Render: plain(ci.GitHub)},
	{Name: "nagios", Is: "a Nagios status line", Render: plain(ci.Nagios)},
	{Name: "prometheus", Is: "Prometheus metrics", Endings: []string{"prom"}, Render: plain(ci.Prometheus)},
	{Name: GoodHosts, Is: "a hostfile of the good nodes", Render: plain(ci.GoodHosts), Hosts: true},
	{Name: BadHosts, Is: "a list of the bad nodes", Render: plain(ci.BadHosts), Hosts: true},
}

// Text is the default format.
const Text = "text"

// GoodHosts and BadHosts are the formats that list hosts. Their names are the flags that select
// them.
const (
	GoodHosts = "good-hosts"
	BadHosts  = "bad-hosts"
)

// plain converts a function that needs no style to a renderer.
func plain(render func(io.Writer, checks.Report) error) func(io.Writer, checks.Report, report.Style) error {
	return func(w io.Writer, r checks.Report, _ report.Style) error { return render(w, r) }
}

// Of returns the format with a name.
func Of(name string) (format Format, known bool) {
	at := slices.IndexFunc(All, func(f Format) bool { return f.Name == name })
	if at < 0 {
		return Format{}, false
	}
	return All[at], true
}

// Names returns the values of --format.
func Names() (names []string) {
	for _, f := range All {
		if !f.Hosts {
			names = append(names, f.Name)
		}
	}
	return names
}

// ByEnding returns the name of the format that a file name selects, "" for none.
func ByEnding(path string) string {
	ending := strings.ToLower(strings.TrimPrefix(filepath.Ext(path), "."))
	at := slices.IndexFunc(All, func(f Format) bool { return slices.Contains(f.Endings, ending) })
	if at < 0 {
		return ""
	}
	return All[at].Name
}
