// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentedProgram checks that the example in docs/go.md is a complete program. The program
// checks a launch on a host where nothing listens for ssh.
func TestDocumentedProgram(t *testing.T) {
	page, err := os.ReadFile("../../docs/go.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```go\n(package main\n.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("docs/go.md has no program")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"main.go": string(block[1]), "hostfile": "127.0.0.1 slots=1\n", "train.py": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("go", "build", "-o", dir, filepath.Join(dir, "main.go")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(filepath.Join(dir, "main"), "deepspeed", "--hostfile", "hostfile", "--force_multi", "--ssh_port", "1", "train.py")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "fail ssh-reach [127.0.0.1] ") || !strings.HasSuffix(string(out), "\nfail\n") {
		t.Errorf("it says (%v):\n%s", err, out)
	}
}
