// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/procfs"
)

func TestMountOf(t *testing.T) {
	table := []*procfs.MountInfo{
		{MountPoint: "/", Source: "root"},
		{MountPoint: "/dev/shm", Source: "first"},
		{MountPoint: "/dev/shm", Source: "second"},
		{MountPoint: "/home", Source: "filer"},
		{MountPoint: "/dev", Source: "dev"},
	}
	for path, want := range map[string]string{
		"/dev/shm": "second", "/dev/shm/nccl": "second", "/dev/shmem": "dev", "/home/ml/job": "filer", "/homes": "root", "/": "root",
	} {
		if got := MountOf(table, path); got == nil || got.Source != want {
			t.Errorf("%s lies on %+v, want %s", path, got, want)
		}
	}
	if got := MountOf(table[1:], "/etc"); got != nil {
		t.Errorf("/etc lies on %+v in a table without a root", got)
	}
}

func TestUnescape(t *testing.T) {
	for name, want := range map[string]string{
		`/plain`: "/plain", `/a\040b`: "/a b", `/tab\011`: "/tab\t", `/back\134slash`: `/back\slash`, `\`: `\`, `/x\9`: `/x\9`, `/y\999z`: `/y\999z`,
	} {
		if got := unescape(name); got != want {
			t.Errorf("unescape(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestMountsTogether(t *testing.T) {
	root := t.TempDir()
	table := filepath.Join(root, "proc/self/mountinfo")
	write := func(source string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(table), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(table, []byte("22 1 0:21 / / rw - tmpfs "+source+" rw\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	source := func(o Options) string {
		t.Helper()
		mounts, err := Mounts(o)
		if err != nil || len(mounts) != 1 {
			t.Fatalf("%v, %v", mounts, err)
		}
		return mounts[0].Source
	}
	each := Options{Root: root}
	together := each.Together()
	write("first")
	if got := source(together); got != "first" {
		t.Errorf("together they see %s", got)
	}
	write("second")
	if got := source(together); got != "first" {
		t.Errorf("who asks next sees %s, another moment", got)
	}
	if got := source(each); got != "second" {
		t.Errorf("who looks alone sees %s", got)
	}
}
