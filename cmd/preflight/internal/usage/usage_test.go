// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"preflight/testhosts/sandbox"
)

// TestHintsAreSafeToPaste pastes hints with hostile arguments into a shell, also inside a command
// substitution. It checks that no argument is executed.
func TestHintsAreSafeToPaste(t *testing.T) {
	for _, c := range sandbox.Classes {
		err := WithHint(errors.New("no"), `true --config %s; true "$(echo %s)" %s`, c.Evil, c.Evil, Words("--help"))
		dir := t.TempDir()
		shell := exec.CommandContext(t.Context(), "bash", "-c", err.(*Error).Hint)
		shell.Dir = dir
		out, _ := shell.CombinedOutput() // only the files that the shell creates matter
		if made, _ := os.ReadDir(dir); len(made) > 0 {
			t.Errorf("%s: %q made %v", c.Name, err.(*Error).Hint, made)
		}
		if strings.Contains(string(out), "syntax error") {
			t.Errorf("%s: %s", c.Name, out)
		}
	}
	if hint := WithHint(errors.New("no"), "%s -H %s", Words("preflight predict"), "hosts").(*Error).Hint; hint != "preflight predict -H hosts" {
		t.Error(hint)
	}
}
