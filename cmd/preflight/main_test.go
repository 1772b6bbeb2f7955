// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the test binary act as preflight. The scripts call it by that name, and it is the
// agent on the nodes of the test fleets.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "agent" || os.Getenv("BE_PREFLIGHT") != "" {
		os.Exit(run(os.Args[1:]))
	}
	testscript.Main(m, map[string]func(){"preflight": func() { os.Exit(run(os.Args[1:])) }})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("SLURM_JOB_NODELIST", "")
			return nil
		},
	})
}
