// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestNoValueIsBent sets values that viper would change until they fit, in every place that can set
// them. Each value arrives unchanged, or preflight returns an error that names the value's place.
func TestNoValueIsBent(t *testing.T) {
	for _, c := range []struct {
		file, variable string
		flags          []string
		got            func(Config) any
		want           any // for an error, "error: " and its text
	}{
		{file: "timeout: 30", want: "error: p.yaml:1: timeout: 30 has no unit: write 30s"},
		{file: "timeout: 30s", got: func(c Config) any { return c.Timeout }, want: 30 * time.Second},
		{variable: "TIMEOUT=30", want: "error: PREFLIGHT_TIMEOUT: 30 has no unit: write 30s"},
		{variable: "TIMEOUT=1m30s", got: func(c Config) any { return c.Timeout }, want: 90 * time.Second},
		{file: "num_nodes: 1.5", want: `error: p.yaml:1: num_nodes: "1.5" is not a whole number`},
		{file: "num_nodes: true", want: `error: p.yaml:1: num_nodes: "true" is not a whole number`},
		{file: "num_nodes: 3", got: func(c Config) any { return c.NumNodes }, want: 3},
		{variable: "NUM_NODES=1.5", want: `error: PREFLIGHT_NUM_NODES: "1.5" is not a whole number`},
		{file: "ssh_port: 0022", want: `error: p.yaml:1: ssh_port: "0022" is not a whole number`},
		{variable: "SSH_PORT=0022", want: `error: PREFLIGHT_SSH_PORT: "0022" is not a whole number`},
		{variable: "OPEN_FILES=65536", got: func(c Config) any { return c.OpenFiles }, want: int64(65536)},
		{file: "memory_free: 0.25", got: func(c Config) any { return c.MemoryFree }, want: 0.25},
		{file: "strict: 1", got: func(c Config) any { return c.Strict }, want: true},
		{file: "strict: yes", want: `error: p.yaml:1: strict: "yes" is not true or false`},
		{variable: "STRICT=yes", want: `error: PREFLIGHT_STRICT: "yes" is not true or false`},
		{file: "output: ['a,b.txt', 'c, d.txt']", got: func(c Config) any { return c.Output }, want: []string{"a,b.txt", "c, d.txt"}},
		{variable: "OUTPUT=a,b.txt", got: func(c Config) any { return c.Output }, want: []string{"a,b.txt"}},
		{flags: []string{"-o", "a,b.txt", "-o", `"c" [d`}, got: func(c Config) any { return c.Output }, want: []string{"a,b.txt", `"c" [d`}},
		{file: "skip: shm-size,clock-skew", got: func(c Config) any { return c.Skip }, want: []string{"shm-size", "clock-skew"}},
		{variable: "SKIP=shm-size,clock-skew", got: func(c Config) any { return c.Skip }, want: []string{"shm-size", "clock-skew"}},
		{file: "hosts: GPU-01.Rack.A,w2", got: func(c Config) any { return c.Hosts }, want: "GPU-01.Rack.A,w2"},
		{variable: "HOSTS=GPU-01.Rack.A", got: func(c Config) any { return c.Hosts }, want: "GPU-01.Rack.A"},
		{flags: []string{"-w", "GPU-01.Rack.A"}, got: func(c Config) any { return c.Hosts }, want: "GPU-01.Rack.A"},
		{file: "groups: {Rack-A: 'GPU-01.Rack.A'}", got: func(c Config) any { return c.Stated.Groups[0].Nodes }, want: []string{"GPU-01.Rack.A"}},
		{file: "python: 3.10", want: `error: p.yaml:1: python: "3.10" is not an absolute path`},
		{file: "deepspeed_version: 0.10", got: func(c Config) any { return c.DeepSpeed }, want: "0.10"},
		{file: "deepspeed.version: 0.10", want: `error: p.yaml:1: unknown setting "deepspeed.version": did you mean "deepspeed_version"?`},
		{file: "strict: true\ntimeuot: 5s", want: `error: p.yaml:2: unknown setting "timeuot": did you mean "timeout"?`},
		{variable: "TIMEUOT=5s", want: `error: unknown setting PREFLIGHT_TIMEUOT: did you mean "PREFLIGHT_TIMEOUT"?`},
		{variable: "timeout=5s", want: `error: unknown setting PREFLIGHT_timeout: did you mean "PREFLIGHT_TIMEOUT"?`},
		{file: "timeout: 5s", variable: "TIMEOUT=6s", flags: []string{"--timeout", "7s"}, got: func(c Config) any { return c.Timeout }, want: 7 * time.Second},
		{file: "timeout: 5s", variable: "TIMEOUT=6s", got: func(c Config) any { return c.Timeout }, want: 6 * time.Second},
	} {
		t.Run(strings.Join([]string{c.file, c.variable, strings.Join(c.flags, " ")}, " "), func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.WriteFile("p.yaml", []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			if name, value, set := strings.Cut(c.variable, "="); set {
				t.Setenv("PREFLIGHT_"+name, value)
			}
			root := rootCommand()
			if err := root.ParseFlags(append([]string{"--config", "p.yaml"}, c.flags...)); err != nil {
				t.Fatal(err)
			}
			config, err := readConfig(root, typedLaunch{})
			var got any
			if err != nil {
				var out strings.Builder
				complain(&out, err)
				got, _, _ = strings.Cut(strings.TrimPrefix(out.String(), "preflight: "), "\n")
				got = fmt.Sprint("error: ", got)
			} else if c.got != nil {
				got = c.got(config)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestDefaultsAreOfCommands checks that the environment does not make a command without --smoke run
// it, and that a command without flags for limits still has limits.
func TestDefaultsAreOfCommands(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", "none")
	t.Setenv("PREFLIGHT_SMOKE", "auto")
	cmd, _, err := rootCommand().Find([]string{"init"})
	if err != nil {
		t.Fatal(err)
	}
	config, err := readConfig(cmd, typedLaunch{})
	if err != nil || config.SmokeTime != 0 || config.SHMHeadroom == "" || config.OpenFiles == 0 || config.Timeout == 0 {
		t.Errorf("%v, %+v", err, config)
	}
}

// defaults returns the settings that apply if nothing is set.
func defaults(t *testing.T) Config {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(t.TempDir(), "none"))
	config, err := readConfig(rootCommand(), typedLaunch{})
	if err != nil {
		t.Fatal(err)
	}
	return config
}
