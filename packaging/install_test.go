// SPDX-License-Identifier: Apache-2.0

//go:build release

package packaging

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestInstall installs the released package with dpkg in copies of the old systems that
// portable/roots.sh makes, runs it there, and removes it again.
func TestInstall(t *testing.T) {
	needs(t, "dpkg")
	roots, err := filepath.Glob("../bin/roots/*-*")
	if err != nil || len(roots) == 0 {
		t.Fatalf("no old systems (%v): make release-check fetches them", err)
	}
	for _, root := range roots {
		arch, glibc, _ := strings.Cut(filepath.Base(root), "-")
		t.Run(filepath.Base(root), func(t *testing.T) {
			if arch != runtime.GOARCH {
				needs(t, qemu[arch])
			}
			debs, err := filepath.Glob("../dist/preflight_*_" + arch + ".deb")
			if err != nil || len(debs) != 1 {
				t.Fatalf("%q, %v: make release writes one package", debs, err)
			}
			clean := filepath.Join(t.TempDir(), "root")
			output(t, "cp", "-a", root, clean)
			database(t, clean, arch, glibc)
			before := files(t, clean)

			dpkg(t, clean, arch, "--install", debs[0])
			if said := start(t, clean, arch, "/usr/bin/preflight", "--version"); !strings.HasPrefix(said, "preflight version ") {
				t.Errorf("--version says %q", said)
			}
			if said := start(t, clean, arch, "/usr/bin/preflight", "completion", "bash"); !strings.Contains(said, "complete -o default") {
				t.Errorf("the completion for bash is %.80q", said)
			}
			if said := start(t, clean, arch, "/usr/bin/preflight", "checks"); !strings.Contains(said, "shm-size") {
				t.Errorf("the checks are %.80q", said)
			}
			inPlace(t, clean)

			dpkg(t, clean, arch, "--purge", "preflight")
			if diff := cmp.Diff(before, files(t, clean)); diff != "" {
				t.Errorf("left behind (-before +after):\n%s", diff)
			}
		})
	}
}

// TestLintian has Debian's own program look at the released packages. What it is told to
// let pass has its reason in lintian-overrides.
func TestLintian(t *testing.T) {
	needs(t, "lintian")
	debs, err := filepath.Glob("../dist/preflight_*.deb")
	if err != nil || len(debs) == 0 {
		t.Fatalf("%q, %v: make release writes them", debs, err)
	}
	for _, deb := range debs {
		if said := output(t, "lintian", "--allow-root", "--tag-display-limit", "0", deb); said != "" {
			t.Errorf("%s:\n%s", deb, said)
		}
	}
}

// database tells dpkg that the system has the C library that it has: the roots are
// unpacked and not installed.
func database(t *testing.T, root, arch, glibc string) {
	t.Helper()
	dir := filepath.Join(root, "var/lib/dpkg")
	for _, name := range []string{"info", "updates", "triggers"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	status := fmt.Sprintf("Package: libc6\nStatus: install ok installed\nArchitecture: %s\nVersion: %s\nMaintainer: nobody\nDescription: the C library\n\n", arch, glibc)
	for name, text := range map[string]string{"status": status, "arch": arch + "\n", "info/libc6.list": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// dpkg is this machine's, working on the root: there is none in there.
func dpkg(t *testing.T, root, arch string, args ...string) {
	t.Helper()
	if arch != runtime.GOARCH {
		args = append([]string{"--force-architecture"}, args...)
	}
	output(t, append([]string{"dpkg", "--root=" + root, "--log=/dev/null"}, args...)...)
}

// qemu runs what this machine cannot.
var qemu = map[string]string{"amd64": "qemu-x86_64-static", "arm64": "qemu-aarch64-static"}

// start runs a program of the root, under its C library.
func start(t *testing.T, root, arch, program string, args ...string) string {
	t.Helper()
	argv := append([]string{"chroot", root, program}, args...)
	if arch != runtime.GOARCH {
		argv = append([]string{qemu[arch], "-L", root, root + program}, args...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%q: %v\n%s", argv, err, stderr.Bytes())
	}
	return string(out)
}

// inPlace looks for the manual and the completions where their readers do.
func inPlace(t *testing.T, root string) {
	t.Helper()
	for path, want := range map[string]string{
		"usr/share/man/man1/preflight.1.gz":                    `.TH "PREFLIGHT" "1"`,
		"usr/share/bash-completion/completions/preflight":      "bash completion",
		"usr/share/zsh/vendor-completions/_preflight":          "#compdef preflight",
		"usr/share/fish/vendor_completions.d/preflight.fish":   "fish completion",
		"usr/share/doc/preflight/copyright":                    "Apache License, Version 2.0",
		"usr/share/doc/preflight/examples/slurm/prolog.sh":     "PrologSlurmctld",
		"usr/share/doc/preflight/examples/kubernetes/job.yaml": "batch/v1",
	} {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err == nil && strings.HasSuffix(path, ".gz") {
			var zipped *gzip.Reader
			if zipped, err = gzip.NewReader(bytes.NewReader(text)); err == nil {
				text, err = io.ReadAll(zipped)
			}
		}
		if err != nil || !bytes.Contains(text, []byte(want)) {
			t.Errorf("%s lacks %q: %v", path, want, err)
		}
	}
}

// files is everything in a root but what dpkg keeps about itself.
func files(t *testing.T, root string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && path == filepath.Join(root, "var/lib/dpkg") {
			return fs.SkipDir
		}
		all = append(all, strings.TrimPrefix(path, root))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
