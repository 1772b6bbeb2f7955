// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"testing"

	"preflight/explain"
)

// TestRealLogs: of logs that were produced for real, with something planted, the
// planted cause is named, or what else the log alone permits.
func TestRealLogs(t *testing.T) {
	corpus := os.DirFS("../testdata")
	catalogue, err := explain.Load()
	if err != nil {
		t.Fatal(err)
	}
	trials, err := try(catalogue, corpus)
	if err != nil {
		t.Fatal(err)
	}
	for _, trial := range trials {
		if !trial.right {
			t.Errorf("%s: %s, is %s", trial.file, trial.got, trial.want)
		}
	}
	if logs, err := fs.ReadDir(corpus, "logs"); err != nil || len(logs) != len(trials) {
		t.Errorf("%d logs, %d of them with a label: %v", len(logs), len(trials), err)
	}
}
