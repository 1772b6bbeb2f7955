package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/cmd/preflight/internal/outputs"
	"preflight/cmd/preflight/internal/usage"
	"preflight/facts"
	"preflight/launch"
)

// envWritable refuses before the run a --write-env that could not be written
// after it, or that would cost its user settings of another origin.
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
		return usage.WithHint(fmt.Errorf("%s already exists and sets more than preflight advises", c.envFile().Asked),
			"name another file, and append it: cat advised.env >> %s", c.WriteEnv)
	}
	return nil
}

// writeEnv writes the advised variables as a .deepspeed_env takes them: plain
// NAME=VALUE lines, without a comment or a blank line, which would end a launch.
func (c Config) writeEnv(advice checks.Advice) error {
	if c.WriteEnv == "" {
		return nil
	}
	if len(advice.Env) == 0 {
		fmt.Fprintf(os.Stderr, "preflight: this run proved nothing to advise, so %s is not written\n", c.WriteEnv)
		return nil
	}
	var text strings.Builder
	for _, env := range advice.Env {
		fmt.Fprintf(&text, "%s=%s\n", env.Name, env.Value)
	}
	return c.envFile().Put([]byte(text.String()))
}

// envFile is where the advised variables go. A launch takes whatever the file holds.
func (c Config) envFile() outputs.Output {
	return outputs.Output{Asked: c.origin("write_env") + " " + c.WriteEnv, Path: c.WriteEnv}
}
