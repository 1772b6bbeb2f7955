// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package main

import (
	"cmp"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/hashicorp/go-version"

	_ "preflight/portable"
)

// The binary of this test is linked as the agent is, with everything that preflight uses from
// glibc. If a Go or C compiler adds a function, this test fails first.
var _ = []any{nvml.New, net.LookupHost, user.Current}

func TestOwnBinaryKeepsToTheFloor(t *testing.T) {
	needs, err := look("/proc/self/exe", floor("2.28"))
	if err != nil || !strings.HasPrefix(needs, "needs glibc 2.") {
		t.Errorf("%q, %v", needs, err)
	}
}

func floor(text string) *version.Version { return version.Must(version.NewVersion(text)) }

func TestFloor(t *testing.T) {
	for name, c := range map[string]struct {
		flags []string
		code  string
		floor string
		needs string
		wrong string // a part of the error
	}{
		"static":           {flags: []string{"-static", "-nostdlib", "-Wl,-e,main"}, needs: "needs no C library"},
		"lazy":             {needs: "needs glibc 2."},
		"above":            {floor: "2.2.4", wrong: "for __libc_start_main, but must start on 2.2.4"},
		"bound at once":    {flags: []string{"-Wl,-z,now"}, wrong: "-z lazy"},
		"other loader":     {flags: []string{"-Wl,--dynamic-linker=/lib/ld-musl.so.1"}, wrong: `its loader is "/lib/ld-musl.so.1"`},
		"other library":    {flags: []string{"-Wl,--no-as-needed", "-lm"}, wrong: "it needs libm.so.6"},
		"text relocations": {flags: []string{"-pie", "-Wl,-z,notext"}, code: `__asm__(".text\n.balign 8\n.quad main");`, wrong: "text relocations"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "program")
			gcc := exec.Command("gcc", append([]string{"-Wl,-z,lazy", "-xc", "-", "-o", path}, c.flags...)...)
			gcc.Stdin = strings.NewReader(c.code + "int main(void) { return 0; }\n")
			if out, err := gcc.CombinedOutput(); err != nil {
				t.Fatalf("gcc: %v\n%s", err, out)
			}
			needs, err := look(path, floor(cmp.Or(c.floor, "99")))
			switch {
			case c.wrong == "" && (err != nil || !strings.HasPrefix(needs, c.needs)):
				t.Errorf("%q, %v, want %q", needs, err, c.needs)
			case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
				t.Errorf("error %v, want …%s…", err, c.wrong)
			}
		})
	}
}

func TestFloorOfOtherFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte(strings.Repeat("#!/bin/sh\n", 10)), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := look(path, floor("2.28")); err == nil || !strings.Contains(err.Error(), "bad magic number") {
		t.Errorf("a script: %v", err)
	}
}
