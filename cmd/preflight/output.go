package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"preflight/checks"
	"preflight/report"
)

// write renders the report to --output, or to standard output.
func (c Config) write(r checks.Report) error {
	return c.deliver(func(w io.Writer, style report.Style) error { return c.render(w, r, style) })
}

// deliver has something rendered to --output, or to standard output.
func (c Config) deliver(render func(io.Writer, report.Style) error) error {
	if c.Output == "" || c.Output == "-" {
		return render(os.Stdout, terminalStyle(os.Stdout))
	}
	var text bytes.Buffer
	if err := render(&text, report.Style{}); err != nil {
		return err
	}
	if err := os.WriteFile(c.Output, text.Bytes(), 0o644); err != nil {
		// The run must not have been for nothing.
		return errors.Join(render(os.Stdout, terminalStyle(os.Stdout)),
			fmt.Errorf("the report cannot be written, so it is on standard output: %w", err))
	}
	return nil
}

func (c Config) render(w io.Writer, r checks.Report, style report.Style) error {
	if c.Format == "json" {
		return report.JSON(w, r)
	}
	style.Verbose, style.Quiet = c.Verbose, c.Quiet
	return report.Text(w, r, style)
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
	return r, nil
}
