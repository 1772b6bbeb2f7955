// SPDX-License-Identifier: Apache-2.0

package outputs

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// saved saves a report over an earlier report that is longer. It first checks that the output is
// writable.
func saved(t *testing.T, path string) {
	t.Helper()
	o := Output{"-o nagios=" + path, "nagios", path}
	if err := o.writable(nil, false); err != nil {
		t.Fatal(err)
	}
	const text = "PREFLIGHT OK - ready to launch | nodes=4\n"
	if err := o.save([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); string(got) != text {
		t.Errorf("it holds %q (%v)", got, err)
	}
	if files, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(files) > 0 {
		t.Errorf("left beside it: %q", files)
	}
}

const earlier = "PREFLIGHT CRITICAL - this launch will not work: 1 problem on w2 | nodes=4\n"

// TestSaveToMountPoint writes to a mount point, which cannot be replaced by a rename.
func TestSaveToMountPoint(t *testing.T) {
	dir := t.TempDir()
	behind, path := filepath.Join(dir, "behind"), filepath.Join(dir, "termination-log")
	for _, file := range []string{behind, path} {
		if err := os.WriteFile(file, []byte(earlier), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount(behind, path, "", unix.MS_BIND, ""); err != nil {
		t.Skip("mounting needs root: ", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, 0); err != nil {
			t.Error(err)
		}
	})
	saved(t, path)
	saved(t, behind) // another name of the same file, which can be replaced by a rename
}

// TestSaveWhereNothingIsMade writes to a writable file in a directory that is not writable.
func TestSaveWhereNothingIsMade(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "report")
	if err := os.WriteFile(path, []byte(earlier), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{path: 0o666, dir: 0o555, filepath.Dir(dir): 0o755} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	defer os.Chmod(dir, 0o755) // lets the test remove the directory
	if os.Geteuid() == 0 {     // root may write everywhere, so this thread becomes the user nobody
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := unix.Setfsuid(65534); err != nil {
			t.Fatal(err)
		}
		defer unix.Setfsuid(0)
	}
	saved(t, path)
	other := Output{Asked: "-o other", Path: filepath.Join(dir, "other")}
	if err := other.writable(nil, false); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("a new file there: %v", err)
	}
}

// TestStrangeEndings checks that a file with the extension of an unknown format does not get text.
func TestStrangeEndings(t *testing.T) {
	dir := t.TempDir() + "/"
	for value, refuse := range map[string]bool{
		"x.foo": true, "report.sarif": true, "text=x.foo": false, "report": false, "report.txt": false, "today.log": false,
		"run.2026-11-22": false, "x.json": false, "junit=x.foo": false,
	} {
		format, path, named := strings.Cut(value, "=")
		asked := dir + value
		if named {
			asked = format + "=" + dir + path
		}
		if err := Writable(Of("text", "-o", []string{asked}), Run(), nil, false); (err != nil) != refuse {
			t.Errorf("-o %s: %v", value, err)
		}
		if err := Writable(Of("junit", "-o", []string{asked}), Run(), nil, false); err != nil {
			t.Errorf("--format junit -o %s: %v", value, err)
		}
	}
}

// TestNoPageOnATerminal checks that HTML is not printed to a terminal.
func TestNoPageOnATerminal(t *testing.T) {
	for _, c := range []struct {
		format string
		values []string
		refuse bool
	}{
		{"html", nil, true},
		{"text", []string{"html=-"}, true},
		{"json", nil, false},
		{"text", []string{"html=" + filepath.Join(t.TempDir(), "report.html")}, false},
	} {
		all := Of(c.format, "-o", c.values)
		err := Writable(all, Run(), nil, true)
		if refused := err != nil && strings.Contains(err.Error(), "an HTML page"); refused != c.refuse {
			t.Errorf("--format %s -o %q: %v", c.format, c.values, err)
		}
		if err := Writable(all, Run(), nil, false); err != nil {
			t.Errorf("in a pipe, --format %s -o %q: %v", c.format, c.values, err)
		}
	}
}
