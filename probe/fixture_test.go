package probe

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// fixture unpacks testdata/NAME.txtar and looks at it as if it were a machine.
// A file called path@ is a symbolic link to its content.
func fixture(t *testing.T, name string) options {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	if len(archive.Files) == 0 {
		t.Fatalf("%s.txtar holds no files", name)
	}
	root := t.TempDir()
	for _, file := range archive.Files {
		path := filepath.Join(root, file.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if link, isLink := strings.CutSuffix(path, "@"); isLink {
			err = os.Symlink(strings.TrimSpace(string(file.Data)), link)
		} else {
			err = os.WriteFile(path, file.Data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return options{Root: root}
}

// write puts files below the root of a fixture, or of an empty machine.
func write(t *testing.T, o options, files map[string]string) options {
	t.Helper()
	if o.Root == "" {
		o.Root = t.TempDir()
	}
	for name, text := range files {
		path := o.at(name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// script writes an executable shell script and returns its path.
func script(t *testing.T, name, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	writeProgram(t, path, "#!/bin/sh\n"+body)
	return path
}

// writeProgram writes a file that can be run at once. A process forked by
// another test while the file is open would hold it open for writing, and the
// kernel refuses to run such a file.
func writeProgram(t *testing.T, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// alive is whether a process runs, or at least is not merely waiting to be
// reaped by whoever adopted it.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// link makes a symbolic link below the root of a fixture.
func link(t *testing.T, o options, target, path string) {
	t.Helper()
	if err := os.Symlink(target, o.at(path)); err != nil {
		t.Fatal(err)
	}
}

// plant writes a txtar archive into a new directory and returns the directory.
func plant(t *testing.T, archive string) string {
	t.Helper()
	dir := t.TempDir()
	if err := txtar.Write(txtar.Parse([]byte(archive)), dir); err != nil {
		t.Fatal(err)
	}
	return dir
}
