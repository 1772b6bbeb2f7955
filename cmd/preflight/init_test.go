// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestInterruptedInit checks that an interrupted init writes no policy, and reports that.
func TestInterruptedInit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "preflight.yaml")
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()
	root := rootCommand()
	root.SetArgs([]string{"init", "-w", "127.0.0.1", "--ssh-port", "1", "-q", "-o", path})
	err := root.ExecuteContext(interrupted)
	if err == nil || !strings.HasPrefix(err.Error(), "interrupted: ") {
		t.Errorf("an interrupted init says %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("an interrupted init wrote its file")
	}
}
