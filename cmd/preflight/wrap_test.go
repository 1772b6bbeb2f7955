// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"preflight/checks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// TestWrongPlace checks for which launches a command is not started on this machine.
func TestWrongPlace(t *testing.T) {
	torchrun := launch.Prediction{Rendezvous: launch.RendezvousC10d, Hosts: make([]hostfile.Host, 2)}
	slurm := torchrun
	slurm.Srun = true
	deepspeed := launch.Prediction{Rendezvous: launch.RendezvousDeepSpeed, Hosts: make([]hostfile.Host, 2)}
	inside := facts.Fleet{Nodes: []facts.Node{{}, {Facts: facts.Facts{SSH: &facts.SSH{Inside: []string{"docker", "exec", "-i", "train"}}}}}}
	for name, test := range map[string]struct {
		report checks.Report
		wrong  bool
	}{
		"torchrun, this machine is no node": {checks.Report{Launch: torchrun}, true},
		"torchrun on a node":                {checks.Report{Launch: torchrun, LaunchedFrom: "w1"}, false},
		"torchrun by srun":                  {checks.Report{Launch: slurm}, false},
		"torchrun for a container":          {checks.Report{Launch: torchrun, LaunchedFrom: "w1", Fleet: inside}, true},
		"deepspeed":                         {checks.Report{Launch: deepspeed}, false},
		"deepspeed for a container":         {checks.Report{Launch: deepspeed, Fleet: inside}, true},
		"srun for a container":              {checks.Report{Launch: slurm, Fleet: inside}, false},
	} {
		if got := wrongPlace(test.report); (got != "") != test.wrong {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestInsideScript checks that preflight finds the launch command in a user's script, and the
// directory that the script changes to.
func TestInsideScript(t *testing.T) {
	t.Setenv("OTHER_OF_TEST", "")
	t.Setenv("ONE_OF_TEST", "")
	dir := t.TempDir()
	script := filepath.Join(dir, "run.sh")
	if err := os.WriteFile(script, []byte("export OTHER_OF_TEST=1\ncd \"$(dirname \"$0\")\"\nexec torchrun train.py\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := readTyped([]string{"ONE_OF_TEST=2", "bash", script})
	want := typedLaunch{words: []string{"bash", script}, command: []string{"torchrun", "train.py"}, dir: dir, set: []string{"ONE_OF_TEST", "OTHER_OF_TEST"}}
	if !reflect.DeepEqual(got, want) || err != nil || os.Getenv("OTHER_OF_TEST") != "1" {
		t.Errorf("%+v (%v) with %q, want %+v", got, err, os.Getenv("OTHER_OF_TEST"), want)
	}
	words := []string{"deepspeed", "train.py"}
	if got, err := readTyped(words); err != nil || !reflect.DeepEqual(got, typedLaunch{words: words, command: words}) {
		t.Errorf("%q became %+v (%v)", words, got, err)
	}
}

// TestVariablesBeforeTheCommand checks that variables before the command have the same effect as
// variables before preflight, and that other words are not read as variables.
func TestVariablesBeforeTheCommand(t *testing.T) {
	for _, c := range []struct {
		words, want []string
		nodes       string // value of NNODES after the call
	}{
		{[]string{"NNODES=2", "torchrun", "train.py"}, []string{"torchrun", "train.py"}, "2"},
		{[]string{"env", "NNODES=4", "OTHER_OF_TEST=a=b", "torchrun", "A=b"}, []string{"torchrun", "A=b"}, "4"},
		{[]string{"env", "-i", "NNODES=2", "torchrun"}, []string{"env", "-i", "NNODES=2", "torchrun"}, "1"},
		{[]string{"torchrun", "NNODES=2"}, []string{"torchrun", "NNODES=2"}, "1"},
		{[]string{"NNODES=2"}, []string{"NNODES=2"}, "1"},
		{nil, nil, "1"},
	} {
		t.Setenv("NNODES", "1")
		t.Setenv("OTHER_OF_TEST", "")
		if got, _ := setAssignments(c.words); !slices.Equal(got, c.want) || os.Getenv("NNODES") != c.nodes {
			t.Errorf("%q is %q with NNODES=%s, want %q with %s", c.words, got, os.Getenv("NNODES"), c.want, c.nodes)
		}
	}
}
