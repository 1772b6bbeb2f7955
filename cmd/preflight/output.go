package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/hashicorp/go-multierror"
	"golang.org/x/term"

	"preflight/checks"
	"preflight/report"
	"preflight/report/formats"
)

// write renders the report to all its outputs.
func (c Config) write(r checks.Report) error {
	return c.deliver(c.outputs(), func(w io.Writer, name string, style report.Style) error {
		format, known := formats.Of(name)
		if !known {
			return fmt.Errorf("there is no format %q", name)
		}
		style.Verbose, style.Quiet = c.Verbose, c.Quiet
		return format.Render(w, r, style)
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
		if err != nil && !printed && !o.row().Hosts {
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
	if err := among(value, allowed); err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	return nil
}

// readReport reads a saved run; - is standard input.
func readReport(path string) (checks.Report, error) {
	in := os.Stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return checks.Report{}, noRun("%s cannot be read: %w", path, systemReason(err))
		}
		defer file.Close()
		in = file
	}
	r, err := report.Read(in)
	if _, unread := errors.AsType[*fs.PathError](err); unread { // as of a directory
		return r, noRun("%s cannot be read: %w", path, systemReason(err))
	}
	if err != nil {
		return r, noRun("%s: %w", path, err)
	}
	if len(r.Nodes) == 0 { // as predict, explain and diff print it
		return r, noRun("%s: there is no node in it, it is no saved run", path)
	}
	return r, nil
}

// noRun says why there is no saved run to read, and how one is made.
func noRun(format string, args ...any) error {
	return withHint(fmt.Errorf(format, args...), "preflight -H hostfile -o json=run.json writes one; preflight snapshot -H hostfile --normalize -o golden.json one to compare with")
}

// readOnce refuses two saved runs that are both to come from standard input.
func readOnce(one, other string) error {
	if one == "-" && other == "-" {
		return withHint(errors.New("standard input can be read once, and - is there twice"), "name a file for one of them")
	}
	return nil
}

// systemReason is the system's own word for what went wrong, without the path that
// whoever tells it has told already.
func systemReason(err error) error {
	if in, ok := errors.AsType[*fs.PathError](err); ok {
		return in.Err
	}
	if in, ok := errors.AsType[*os.LinkError](err); ok {
		return in.Err
	}
	return err
}
