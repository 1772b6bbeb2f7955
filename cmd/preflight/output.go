// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"preflight/checks"
	"preflight/cmd/preflight/internal/outputs"
	"preflight/cmd/preflight/internal/usage"
	"preflight/facts"
	"preflight/internal/secret"
	"preflight/launch"
	"preflight/report"
	"preflight/report/formats"
)

func (c Config) outputs() []outputs.Output {
	return outputs.Of(c.Format, c.origin("output"), c.Output,
		outputs.Output{Asked: c.origin("good_hosts") + " " + c.GoodHosts, Format: formats.GoodHosts, Path: c.GoodHosts},
		outputs.Output{Asked: c.origin("bad_hosts") + " " + c.BadHosts, Format: formats.BadHosts, Path: c.BadHosts})
}

func (c Config) writable(written outputs.Product, those map[string]string) error {
	read := map[string]string{"the configuration": c.Stated.File}
	maps.Copy(read, those)
	return outputs.Writable(c.outputs(), written, read, term.IsTerminal(int(os.Stdout.Fd())))
}

func (c Config) write(r checks.Report) error {
	secret.Within(&r)
	return outputs.Deliver(c.outputs(), func(w io.Writer, name string, style report.Style) error {
		format, known := formats.Of(name)
		if !known {
			return fmt.Errorf("unknown format %q", name)
		}
		style.Verbose, style.Quiet = c.Verbose, c.Quiet
		return format.Render(w, r, style)
	})
}

// envWritable checks before the run that the file of --write-env can be written after the run. It
// also checks that the file would not replace settings that did not come from preflight.
func (c Config) envWritable() error {
	if c.WriteEnv == "" {
		return nil
	}
	text, err := os.ReadFile(c.WriteEnv)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c.envFile().Creatable()
	case err != nil:
		return outputs.CannotWrite(c.envFile().Asked, err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	settings, problems := launch.ParseEnvFile(facts.EnvFile{Path: c.WriteEnv, Lines: lines})
	foreign := func(s facts.Setting) bool { return !slices.Contains(checks.AdvisedNames, s.Name) }
	if len(text) > 0 && (len(problems) > 0 || slices.ContainsFunc(settings, foreign)) {
		return usage.WithHint(fmt.Errorf("%s already exists, and sets variables that preflight did not write", c.envFile().Asked),
			"write another file and append it: cat advised.env >> %s", c.WriteEnv)
	}
	return nil
}

// writeEnv writes the advised variables in the format of .deepspeed_env: NAME=VALUE lines. A
// comment or a blank line would make DeepSpeed fail.
func (c Config) writeEnv(advice checks.Advice) error {
	if c.WriteEnv == "" {
		return nil
	}
	for _, env := range advice.Refused {
		fmt.Fprintf(os.Stderr, "preflight: %s not written: %s\n", env.Name, env.Why)
	}
	if len(advice.Env) == 0 && len(advice.Refused) > 0 {
		return nil
	}
	if len(advice.Env) == 0 {
		fmt.Fprintf(os.Stderr, "preflight: %s not written: this run proved no variable to be needed\n", c.WriteEnv)
		return nil
	}
	var text strings.Builder
	for _, env := range advice.Env {
		fmt.Fprintf(&text, "%s=%s\n", env.Name, env.Value)
	}
	return c.envFile().Put([]byte(text.String()))
}

// envFile returns the output for the advised variables. A launch uses every variable in this file.
func (c Config) envFile() outputs.Output {
	return outputs.Output{Asked: c.origin("write_env") + " " + c.WriteEnv, Path: c.WriteEnv}
}

// printAnswer prints the result of a command and returns the exit code as an error.
func printAnswer[Report any](format string, seen Report, text func(io.Writer, Report, report.Style) error, code int) error {
	var err error
	if format == "json" {
		err = report.JSON(os.Stdout, seen)
	} else {
		err = text(os.Stdout, seen, outputs.TerminalStyle(os.Stdout))
	}
	if err == nil && code != exitPass {
		err = exitCode(code)
	}
	return err
}
