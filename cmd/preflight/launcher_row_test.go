// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"preflight"
	"preflight/hostfile"
	"preflight/launch"
)

// TestMadeUpLauncher checks that a new launcher needs only a row in the table, and then appears in
// help, completion and errors.
func TestMadeUpLauncher(t *testing.T) {
	before := launch.Launchers
	t.Cleanup(func() { launch.Launchers = before })
	launch.Launchers = append(slices.Clone(before), launch.Launcher{Name: "armada", Programs: []string{"armadactl", "armada"}})
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("PATH", dir)
	for name, text := range map[string]string{"hostfile": "w1 slots=2\nw2 slots=2\n", "armada": "#!/bin/sh\n"} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ words, want string }{
		{"help launch", "mvapich, slurm, armada"},
		{"__complete --launcher arm", "armada"},
		{"predict -H hostfile --launcher armada", "over armada"},
		{"predict --format json -- deepspeed -H hostfile --launcher armada train.py", `"launcher": "armada"`},
	} {
		root := rootCommand()
		root.SetArgs(strings.Fields(c.words))
		got := printed(t, func() error { root.SetOut(os.Stdout); return root.Execute() })
		if !strings.Contains(strings.Join(strings.Fields(got), " "), c.want) { // joins the lines, because help is wrapped
			t.Errorf("preflight %s: no %q in\n%s", c.words, c.want, got)
		}
	}
	for _, s := range settings(rootCommand()) {
		if s.key == "launcher" && (s.wrong("armada") != nil || s.wrong("armadillo") == nil) {
			t.Error("the configuration file takes what the table names, and nothing else")
		}
	}
	manual := rootCommand()
	manual.SetArgs([]string{"man", dir})
	if err := manual.Execute(); err != nil {
		t.Fatal(err)
	}
	if page, err := os.ReadFile("preflight.1"); err != nil || !strings.Contains(string(page), "armada") {
		t.Errorf("the manual page does not name it: %v", err)
	}
	plan, err := preflight.NewPlan(t.Context(), preflight.Intent{Options: launch.Options{Launcher: "armada", Hosts: []hostfile.Host{{Name: "w1"}, {Name: "w2"}}, WorkDir: dir}})
	if want := filepath.Join(dir, "armada"); err != nil || plan.Head.Launcher.Backends["armada"] != want {
		t.Errorf("%v, programs %v, want %s", err, plan.Head.Launcher.Backends, want)
	}
}

// printed returns what a function prints.
func printed(t *testing.T, do func() error) string {
	file, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stdout := os.Stdout
	os.Stdout = file
	err = do()
	os.Stdout = stdout
	text, _ := os.ReadFile(file.Name())
	if err != nil {
		t.Error(err)
	}
	return string(text)
}
