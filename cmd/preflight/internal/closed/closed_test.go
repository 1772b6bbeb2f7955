// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package closed

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestOutput writes to what there is of standard output, in a process of its own.
func TestOutput(t *testing.T) {
	if os.Getenv("WRITES") != "" {
		if _, err := Output().WriteString("told"); err != nil {
			t.Fatal(err)
		}
		return
	}
	for redirection, isLost := range map[string]bool{">&-": true, ">/dev/null": false, "1<>/dev/null": false} {
		shell := exec.CommandContext(t.Context(), "sh", "-c", `"$0" -test.run=TestOutput `+redirection, os.Args[0])
		shell.Env = append(os.Environ(), "WRITES=1")
		if err := shell.Run(); (err != nil) != isLost {
			t.Errorf("%s ends with %v", redirection, err)
		}
	}
	if strings.Contains(Output().Name(), "closed") {
		t.Error("the output that is open is taken for closed")
	}
}
