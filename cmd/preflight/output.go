package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/go-multierror"
	"golang.org/x/term"

	"preflight/checks"
	"preflight/report"
)

// renderers write a run in the formats of a machine; text, which is drawn to fit where
// it goes, is apart.
var renderers = map[string]func(io.Writer, checks.Report) error{
	"json":       report.JSON[checks.Report],
	"junit":      report.JUnit,
	"markdown":   report.MarkdownSummary,
	"html":       report.HTML,
	"github":     report.GitHub,
	"nagios":     report.Nagios,
	"prometheus": report.Prometheus,
	goodHosts:    report.GoodHosts,
	badHosts:     report.BadHosts,
}

// write renders the report to all its outputs.
func (c Config) write(r checks.Report) error {
	return c.deliver(c.outputs(), func(w io.Writer, format string, style report.Style) error {
		if render, known := renderers[format]; known {
			return render(w, r)
		}
		style.Verbose, style.Quiet = c.Verbose, c.Quiet
		return report.Text(w, r, style)
	})
}

// deliver has something rendered to each output, files first: whoever reads what is
// printed may look for them. One that fails takes no other with it.
func (c Config) deliver(outputs []output, render func(io.Writer, string, report.Style) error) error {
	var problems *multierror.Error
	printed := slices.ContainsFunc(outputs, output.isPrinted)
	print := func(format string) {
		problems = multierror.Append(problems, render(os.Stdout, format, terminalStyle(os.Stdout)))
	}
	for _, o := range outputs {
		if o.isPrinted() {
			continue
		}
		var text bytes.Buffer
		if err := render(&text, o.format, report.Style{}); err != nil {
			problems = multierror.Append(problems, fmt.Errorf("%s: %w", o.said, err))
			continue
		}
		err := o.save(text.Bytes())
		if err != nil && !printed && o.isReport() {
			printed = true // the run must not have been for nothing
			print(o.format)
			err = fmt.Errorf("the report is not lost, it is on standard output: %w", err)
		}
		problems = multierror.Append(problems, err)
	}
	for _, o := range outputs {
		if o.isPrinted() {
			print(o.format)
		}
	}
	return problems.ErrorOrNil()
}

// terminalStyle fits text to a terminal. Anything else gets plain text of
// the default width: colour only where a person looks, and never with NO_COLOR.
func terminalStyle(file *os.File) report.Style {
	if !term.IsTerminal(int(file.Fd())) {
		return report.Style{}
	}
	style := report.Style{Color: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if width, _, err := term.GetSize(int(file.Fd())); err == nil {
		style.Width = width
	}
	return style
}

// oneOf refuses a value that is not among the allowed ones.
func oneOf(flag, value string, allowed []string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("--%s %q: it is one of %s", flag, value, strings.Join(allowed, ", "))
}

// readReport reads a saved run; - is standard input.
func readReport(path string) (checks.Report, error) {
	in := os.Stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return checks.Report{}, err
		}
		defer file.Close()
		in = file
	}
	r, err := report.Read(in)
	if err != nil {
		return r, withHint(fmt.Errorf("%s: %w", path, err), "preflight snapshot -H hostfile -o golden.json writes one")
	}
	if len(r.Nodes) == 0 { // as predict, explain and diff print it
		return r, withHint(fmt.Errorf("%s: there is no node in it, it is no saved run", path), "preflight snapshot -H hostfile -o golden.json writes one")
	}
	return r, nil
}
