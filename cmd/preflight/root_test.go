// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"preflight/cmd/preflight/internal/usage"
)

// TestLostWorkingDirectory runs in a directory that has been removed.
func TestLostWorkingDirectory(t *testing.T) {
	gone := t.TempDir() + "/gone"
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(gone)
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PWD", "")
	_, err := readTyped([]string{"deepspeed", "train.py"})
	hint, has := errors.AsType[*usage.Error](err)
	if err == nil || !strings.Contains(err.Error(), "the working directory") || !has || !strings.Contains(hint.Hint, "cd ") {
		t.Errorf("%v, and %+v for a way out", err, hint)
	}
}
