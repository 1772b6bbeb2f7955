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

// TestInstall installs the released packages with dpkg and with rpm in copies of the old
// systems that portable/roots.sh makes, runs them there, and removes them again.
func TestInstall(t *testing.T) {
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
			t.Run("deb", func(t *testing.T) {
				needs(t, "dpkg")
				clean := copied(t, root)
				database(t, clean, arch, glibc)
				installs(t, clean, arch, "vendor-completions", "doc/preflight/copyright",
					func() { dpkg(t, clean, arch, "--install", released(t, "preflight_*_"+arch+".deb")) },
					func() { dpkg(t, clean, arch, "--purge", "preflight") })
			})
			t.Run("rpm", func(t *testing.T) {
				needs(t, "rpm")
				clean := copied(t, root)
				for _, dir := range filesystem {
					if err := os.MkdirAll(filepath.Join(clean, dir), 0o755); err != nil {
						t.Fatal(err)
					}
				}
				at := []string{"rpm", "--root=" + clean, "--dbpath=/var/lib/rpm"}
				output(t, append(at, "--initdb")...)
				// rpm knows of no package on these systems, so only the C library may be missing.
				file := released(t, "preflight-*."+machine[arch]+".rpm")
				said, err := exec.Command(at[0], append(at[1:], "--ignorearch", "--test", "-i", file)...).CombinedOutput()
				if err == nil || strings.Count(string(said), "is needed by") != 1 || !bytes.Contains(said, []byte("libc.so.6(GLIBC_")) {
					t.Errorf("on a system without packages rpm misses more or less than libc.so.6 (%v):\n%s", err, said)
				}
				installs(t, clean, arch, "site-functions", "licenses/preflight/LICENSE",
					func() { output(t, append(at, "--ignorearch", "--nodeps", "-i", file)...) },
					func() { output(t, append(at, "-e", "preflight")...) })
			})
		})
	}
}

// filesystem are the directories that Fedora's package of that name creates on every system with
// rpm. No other package owns them, so rpm does not remove them.
var filesystem = []string{"usr/bin", "usr/share/bash-completion/completions", "usr/share/fish/vendor_completions.d", "usr/share/licenses",
	"usr/share/man/man1", "usr/share/zsh/site-functions"}

// copied returns the path of a copy of a root that a test may change.
func copied(t *testing.T, root string) string {
	t.Helper()
	clean := filepath.Join(t.TempDir(), "root")
	output(t, "cp", "-a", root, clean)
	return clean
}

// released returns the path of the one file in dist that matches the pattern.
func released(t *testing.T, pattern string) string {
	t.Helper()
	all, err := filepath.Glob("../dist/" + pattern)
	if err != nil || len(all) != 1 {
		t.Fatalf("%s: %q, %v: make release writes one", pattern, all, err)
	}
	return all[0]
}

// installs installs a package in a root, checks the result, and removes the package.
func installs(t *testing.T, root, arch, zsh, terms string, install, remove func()) {
	t.Helper()
	before := files(t, root)
	install()
	if said := start(t, root, arch, "/usr/bin/preflight", "--version"); !strings.HasPrefix(said, "preflight version ") {
		t.Errorf("--version says %q", said)
	}
	if said := start(t, root, arch, "/usr/bin/preflight", "completion", "bash"); !strings.Contains(said, "complete -o default") {
		t.Errorf("the completion for bash is %.80q", said)
	}
	if said := start(t, root, arch, "/usr/bin/preflight", "checks"); !strings.Contains(said, "shm-size") {
		t.Errorf("the checks are %.80q", said)
	}
	inPlace(t, root, zsh, terms)
	remove()
	if diff := cmp.Diff(before, files(t, root)); diff != "" {
		t.Errorf("left behind (-before +after):\n%s", diff)
	}
}

// TestLintian runs Debian's lintian on the released packages. lintian-overrides has the reason for
// each tag that it ignores.
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

// database records the C library of a root as an installed package. dpkg does not know about it,
// because the roots were unpacked and not installed.
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

// dpkg runs this machine's dpkg on the root, which has none.
func dpkg(t *testing.T, root, arch string, args ...string) {
	t.Helper()
	if arch != runtime.GOARCH {
		args = append([]string{"--force-architecture"}, args...)
	}
	output(t, append([]string{"dpkg", "--root=" + root, "--log=/dev/null"}, args...)...)
}

// qemu maps an architecture to the emulator that runs its programs.
var qemu = map[string]string{"amd64": "qemu-x86_64-static", "arm64": "qemu-aarch64-static"}

// start runs a program of the root with the root's C library.
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

// inPlace tests that the manual and the completions are where man and the shells look for them.
func inPlace(t *testing.T, root, zsh, terms string) {
	t.Helper()
	for path, want := range map[string]string{
		"usr/share/man/man1/preflight.1.gz":                    `.TH "PREFLIGHT" "1"`,
		"usr/share/bash-completion/completions/preflight":      "bash completion",
		"usr/share/zsh/" + zsh + "/_preflight":                 "#compdef preflight",
		"usr/share/fish/vendor_completions.d/preflight.fish":   "fish completion",
		"usr/share/" + terms:                                   "Apache License",
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

// files returns the paths of all files in a root, except those of dpkg and rpm themselves.
func files(t *testing.T, root string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if below := strings.TrimPrefix(path, root); err == nil && (below == "/var/lib/dpkg" || below == "/var/lib/rpm") {
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
