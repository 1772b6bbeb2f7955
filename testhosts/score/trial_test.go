// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"os"
	"testing"

	"preflight/explain"
)

func trialsOf(t *testing.T, corpus fs.FS) []trial {
	t.Helper()
	catalogue, err := explain.Load()
	if err != nil {
		t.Fatal(err)
	}
	trials, err := try(catalogue, corpus)
	if err != nil {
		t.Fatal(err)
	}
	return trials
}

// TestRealLogs checks logs of real runs with a known fault. explain must name the cause of the
// fault, or another cause that the log permits.
func TestRealLogs(t *testing.T) {
	corpus := os.DirFS("../../explain/testdata")
	trials := trialsOf(t, corpus)
	for _, trial := range trials {
		if !trial.right {
			t.Errorf("%s: %s, is %s", trial.file, trial.got, trial.want)
		}
	}
	if logs, err := fs.ReadDir(corpus, "logs"); err != nil || len(logs) != len(trials) {
		t.Errorf("%d logs, %d of them with a label: %v", len(logs), len(trials), err)
	}
}

// TestFieldLogs checks logs from public sources. No log of a failure may pass, no healthy log may
// get a cause, and at most one cause in twenty may be wrong.
func TestFieldLogs(t *testing.T) {
	corpus := os.DirFS("../../explain/testdata/field")
	trials := trialsOf(t, corpus)
	var wrong []string
	for _, trial := range trials {
		switch {
		case trial.passed():
			t.Errorf("%s failed of %s, and explain passes it", trial.file, trial.want)
		case trial.blamed():
			t.Errorf("%s is healthy, and explain says %s", trial.file, trial.got)
		case !trial.right:
			wrong = append(wrong, fmt.Sprintf("%s: %s, is %s", trial.file, trial.got, trial.want))
		}
	}
	if 20*len(wrong) > len(trials) {
		t.Errorf("%d of %d are wrong: %q", len(wrong), len(trials), wrong)
	}
	if logs, err := fs.ReadDir(corpus, "logs"); err != nil || len(logs) != len(trials) {
		t.Errorf("%d logs, %d of them with a label: %v", len(logs), len(trials), err)
	}
}
