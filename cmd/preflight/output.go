package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"

	"golang.org/x/term"

	"preflight/checks"
	"preflight/cmd/preflight/internal/outputs"
	"preflight/cmd/preflight/internal/usage"
	"preflight/report"
	"preflight/report/formats"
)

// outputs are where the report goes.
func (c Config) outputs() []outputs.Output {
	return outputs.Of(c.Format, c.origin("output"), c.Output,
		outputs.Output{Asked: c.origin("good_hosts") + " " + c.GoodHosts, Format: formats.GoodHosts, Path: c.GoodHosts},
		outputs.Output{Asked: c.origin("bad_hosts") + " " + c.BadHosts, Format: formats.BadHosts, Path: c.BadHosts})
}

// writable refuses before the run outputs that could not be written after it. Those are the
// files that the command reads, by what they are.
func (c Config) writable(written outputs.Product, those map[string]string) error {
	if err := oneOf("format", c.Format, written.Formats); err != nil {
		return err
	}
	read := map[string]string{"the configuration": c.Stated.File}
	maps.Copy(read, those)
	return outputs.Writable(c.outputs(), written, read, term.IsTerminal(int(os.Stdout.Fd())))
}

// write renders the report to all its outputs.
func (c Config) write(r checks.Report) error {
	return outputs.Deliver(c.outputs(), func(w io.Writer, name string, style report.Style) error {
		format, known := formats.Of(name)
		if !known {
			return fmt.Errorf("unknown format %q", name)
		}
		style.Verbose, style.Quiet = c.Verbose, c.Quiet
		return format.Render(w, r, style)
	})
}

// oneOf refuses a value that is not among the allowed ones.
func oneOf(flag, value string, allowed []string) error {
	if err := usage.Among(value, allowed); err != nil {
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
			return checks.Report{}, noRun("%s cannot be read: %w", path, usage.Reason(err))
		}
		defer file.Close()
		in = file
	}
	r, err := report.Read(in)
	if _, unread := errors.AsType[*fs.PathError](err); unread { // as of a directory
		return r, noRun("%s cannot be read: %w", path, usage.Reason(err))
	}
	if err != nil {
		return r, noRun("%s: %w", path, err)
	}
	if len(r.Nodes) == 0 { // as predict, explain and diff print it
		return r, noRun("%s: it has no nodes, so it is not a saved run", path)
	}
	return r, nil
}

// noRun says why there is no saved run to read, and how one is made.
func noRun(format string, args ...any) error {
	return usage.WithHint(fmt.Errorf(format, args...), "preflight -H hostfile -o json=run.json writes one; preflight snapshot -H hostfile --normalize -o golden.json one to compare with")
}

// readOnce refuses two saved runs that are both to come from standard input.
func readOnce(one, other string) error {
	if one == "-" && other == "-" {
		return usage.WithHint(errors.New("standard input can only be read once, and - is given twice"), "name a file for one of them")
	}
	return nil
}
