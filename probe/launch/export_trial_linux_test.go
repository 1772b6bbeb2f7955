// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"preflight/facts"
	"preflight/probe/machine"
)

// TestTyped asks login shells of several families, one that spoils a variable,
// and one that does not answer.
func TestExportTrial(t *testing.T) {
	names := []string{"FIRST", "SECOND", "not a name; exit"}
	for name, c := range map[string]struct {
		shell string // a program in PATH, or the text of a script that stands in for the shell
		want  *facts.ExportTrial
	}{
		"sh":        {shell: "sh", want: &facts.ExportTrial{Lost: []string{}}},
		"bash":      {shell: "bash", want: &facts.ExportTrial{Lost: []string{}}},
		"zsh":       {shell: "zsh", want: &facts.ExportTrial{Lost: []string{}}},
		"fish":      {shell: "fish", want: &facts.ExportTrial{Lost: []string{}}},
		"tcsh":      {shell: "tcsh", want: &facts.ExportTrial{Lost: []string{"FIRST", "SECOND"}, Message: "export: Command not found."}},
		"prints":    {shell: "#!/bin/sh\necho welcome\nexec /bin/sh \"$@\"\n", want: &facts.ExportTrial{Lost: []string{}}},
		"read-only": {shell: "#!/bin/bash\nreadonly SECOND=0\neval \"$2\"\n", want: &facts.ExportTrial{Lost: []string{"SECOND"}, Message: "SECOND: readonly variable"}},
		"exits":     {shell: "#!/bin/sh\nexit 1\n"},
		"waits":     {shell: "#!/bin/sh\nsleep 60\n"},
	} {
		t.Run(name, func(t *testing.T) {
			shell, err := exec.LookPath(c.shell)
			if c.shell[0] == '#' {
				shell = filepath.Join(t.TempDir(), "shell")
				err = os.WriteFile(shell, []byte(c.shell), 0o700)
			}
			if err != nil {
				t.Skip(err)
			}
			root := t.TempDir()
			passwd := fmt.Sprintf("train:x:%d:0::/home/train:%s\n", os.Getuid(), shell)
			if err := os.MkdirAll(filepath.Join(root, "etc"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, "etc/passwd"), []byte(passwd), 0o600); err != nil {
				t.Fatal(err)
			}
			o := machine.Options{Root: root, TriedExports: names}
			t.Setenv("SSH_CONNECTION", "")
			if got := tryExports(t.Context(), o); got != nil {
				t.Errorf("without a login, the shell says %+v", got)
			}
			t.Setenv("SSH_CONNECTION", "10.0.0.1 40000 10.0.0.2 22")
			got := tryExports(t.Context(), o)
			if (got == nil) != (c.want == nil) {
				t.Fatalf("got %+v, want %+v", got, c.want)
			}
			if got == nil {
				return
			}
			if got.Shell != shell || !slices.Equal(got.Lost, c.want.Lost) || !strings.HasSuffix(got.Message, c.want.Message) {
				t.Errorf("got %+v, want %+v", *got, *c.want)
			}
		})
	}
}
