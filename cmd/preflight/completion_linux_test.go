// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// completing is a script that makes bash complete a line as bash-completion does, but without a
// terminal. The cursor is at the end of the line. The script prints the words that bash would
// offer.
const completing = `
. /usr/share/bash-completion/bash_completion
eval "$(preflight completion bash)"
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9 COMP_KEY=9
read -ra COMP_WORDS <<<"${1//=/ = }"
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
compopt() { :; }
__start_preflight preflight 2>&1
printf '%s\n' "${COMPREPLY[@]}"
`

// TestBashCompletion checks that completion continues a list after a comma, which bash quotes.
func TestBashCompletion(t *testing.T) {
	if _, err := os.Stat("/usr/share/bash-completion/bash_completion"); err != nil {
		t.Skip("NOT RUN: no bash-completion here: apt-get install bash-completion")
	}
	t.Parallel()
	programs := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(programs, "preflight")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(programs, "hosts"), []byte("gpu1 slots=8\ngpu2 slots=8\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for typed, want := range map[string]string{
		"preflight --only ssh-r":                      "ssh-reach",
		"preflight --only ssh-reach,ssh-l":            `ssh-reach\,ssh-login`,
		"preflight judge --skip shm-size,clock":       `shm-size\,clock-skew`,
		"preflight --only=ssh-reach,ssh-l":            `ssh-reach\,ssh-login`,
		"preflight -w node01,node03,node0":            `node01\,node03\,node02`,
		"preflight -o json=a,ju":                      `a\,junit=`, // the word begins after the "="
		"preflight -H hosts -i gpu1@gp":               "gpu1@gpu2",
		"preflight predict -H hosts -e gpu2@gp":       "gpu2@gpu1",
		"preflight snapshot --accept clock,host.kern": `clock\,host.kernel`,
		"preflight rendezvous -H hosts gpu1":          "gpu1:29500",
		"preflight -H hosts --master_addr gpu2":       "gpu2",
		"preflight hang --via kubectl --job mpi":      "mpijob/",
		"preflight --via mp":                          "mpirun",
	} {
		bash := exec.CommandContext(t.Context(), "bash", "--norc", "-c", completing, "bash", typed)
		bash.Env = append(os.Environ(), "BE_PREFLIGHT=1", "PATH="+programs+":"+os.Getenv("PATH"), "SLURM_JOB_NODELIST=node[01-03]", "HOME="+programs)
		bash.Dir = programs
		out, err := bash.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%s: %v\n%s\nwant %s", typed, err, got, want)
		}
	}
}
