// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

var sysctls = map[string]string{
	"/proc/sys/kernel/shmmax": "18446744073692774399\n",
	"/proc/sys/kernel/shmall": "18446744073692774399\n",
	"/proc/sys/kernel/shmmni": "4096\n",
}

func TestSHMOfAFixture(t *testing.T) {
	o := probetest.Write(t, probetest.Machine(t, "host-docker-cgroup2"), sysctls)
	if err := os.Mkdir(filepath.Join(o.Root, "dev"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(o.At(shmPath), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(o.At(shmPath), 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	want := &facts.SHM{
		Exists: true, Mounted: true, FSType: "tmpfs", Options: "inode64,nodev,noexec,nosuid,relatime,rw", Mode: "1777",
		Writable: true, Segments: []facts.Segment{}, ShmMax: 18446744073692774399, ShmAll: 18446744073692774399, ShmMni: 4096,
	}
	got, err := CollectSHM(t.Context(), o)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(facts.SHM{}, "Size", "Free", "FreeInodes")); diff != "" || err != nil {
		t.Errorf("error %v; (-want +got):\n%s", err, diff)
	}
	if left, _ := os.ReadDir(o.At(shmPath)); len(left) > 0 {
		t.Errorf("%s was left behind", left)
	}
}

func TestSHMThatIsOnlyADirectory(t *testing.T) {
	o := probetest.Write(t, probetest.Write(t, probetest.Machine(t, "host-numa-memoryless"), sysctls), map[string]string{
		"/run/shm/.keep":       "",
		"/proc/self/mountinfo": "60 1 253:0 / / rw,relatime shared:1 - xfs /dev/sda rw\n61 60 0:9 / /proc rw - proc proc rw\n",
	})
	if err := os.Mkdir(filepath.Join(o.Root, "dev"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../run/shm", o.At(shmPath)); err != nil {
		t.Fatal(err)
	}
	got, err := CollectSHM(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Exists || got.Mounted || got.FSType != "xfs" || len(got.Segments) != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestNoSHMAtAllIsAFact(t *testing.T) {
	got, err := CollectSHM(t.Context(), probetest.Write(t, machine.Options{}, sysctls))
	if err != nil || got.Exists || got.Writable {
		t.Errorf("got %+v, error %v", got, err)
	}
}

func TestOptionsOf(t *testing.T) {
	for want, m := range map[string]*procfs.MountInfo{
		"nodev,nosuid,rw":      {Options: map[string]string{"rw": "", "nosuid": "", "nodev": ""}, SuperOptions: map[string]string{"rw": "", "size": "65536k"}},
		"mode=700,ro,rw":       {Options: map[string]string{"ro": ""}, SuperOptions: map[string]string{"rw": "", "mode": "700", "nr_blocks": "9"}},
		"nr_inodes=4096,uid=7": {SuperOptions: map[string]string{"nr_inodes": "4096", "uid": "7"}},
		"":                     {},
	} {
		if got := optionsOf(m); got != want {
			t.Errorf("options are %q, want %q", got, want)
		}
	}
}

func TestTryToWriteSaysWhyNot(t *testing.T) {
	err := tryToWrite("/proc") // /proc does not allow files to be created, not even nameless files
	if err == nil || !strings.HasPrefix(err.Error(), "cannot create a file in /dev/shm: ") {
		t.Errorf("writing to /proc: %v", err)
	}
}

func TestOpenUnlinkedLeavesNoName(t *testing.T) {
	dir := t.TempDir()
	fd, err := openUnlinked(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%s was left behind", left)
	}
}

// mountTmpfs mounts a tmpfs for the test. Only root may mount it.
func mountTmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("preflight-test", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("SKIPPED: needs root to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("the tmpfs stays mounted: %v", err)
		}
	})
	return dir
}

func TestTryToWriteInTmpfs(t *testing.T) {
	full := mountTmpfs(t, "size=8k")
	if err := tryToWrite(full); err != nil {
		t.Errorf("an empty tmpfs: %v", err)
	}
	if err := os.WriteFile(filepath.Join(full, "filler"), make([]byte, 8192), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tryToWrite(full); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a full tmpfs: %v, want %v", err, unix.ENOSPC)
	}
	if err := unix.Mount("", full, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if err := tryToWrite(full); !errors.Is(err, unix.EROFS) {
		t.Errorf("a read-only tmpfs: %v, want %v", err, unix.EROFS)
	}
}

func TestTmpfsWithoutASizeIsBoundedByMemory(t *testing.T) {
	dir := mountTmpfs(t, "size=0")
	var got facts.SHM
	if err := shmSizes(probetest.Machine(t, "host-docker-cgroup2"), dir, &got); err != nil {
		t.Fatal(err)
	}
	if got.Size != 502000000<<10 || got.Free != 400000000<<10 {
		t.Errorf("size %d and free %d are not the memory's", got.Size, got.Free)
	}
}

func TestRemoveIPC(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"nothing configured": {nil, "yes"},
		"shipped by Red Hat": {map[string]string{"/etc/systemd/logind.conf": "[Login]\n#KillUserProcesses=no\n#RemoveIPC=no\n"}, "no"},
		"set":                {map[string]string{"/etc/systemd/logind.conf": "[Login]\n#RemoveIPC=yes\nRemoveIPC = off\n"}, "no"},
		"drop-in wins": {map[string]string{"/etc/systemd/logind.conf": "RemoveIPC=no\n",
			"/etc/systemd/logind.conf.d/50-ipc.conf": "RemoveIPC=yes\n"}, "yes"},
		"later drop-in wins": {map[string]string{"/run/systemd/logind.conf.d/90.conf": "RemoveIPC=1\n",
			"/etc/systemd/logind.conf.d/10.conf": "RemoveIPC=0\n"}, "yes"},
		"/etc hides its namesake": {map[string]string{"/usr/lib/systemd/logind.conf.d/10.conf": "RemoveIPC=no\n",
			"/etc/systemd/logind.conf.d/10.conf": "[Login]\n"}, "yes"},
		"main file of the vendor":         {map[string]string{"/usr/lib/systemd/logind.conf": "RemoveIPC=no\n"}, "no"},
		"nonsense":                        {map[string]string{"/etc/systemd/logind.conf": "RemoveIPC=maybe\nNoRemoveIPC=no\n"}, "yes"},
		"a comment in a drop-in is prose": {map[string]string{"/etc/systemd/logind.conf.d/1.conf": "# RemoveIPC=no is what we had before\n"}, "yes"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"/lib/systemd/systemd-logind": "", "/run/systemd/system/x": ""}
			maps.Copy(files, test.files)
			if got := removeIPC(probetest.Write(t, machine.Options{}, files)); got != test.want {
				t.Errorf("RemoveIPC is %q, want %q", got, test.want)
			}
		})
	}
}

func TestRemoveIPCWithoutLogind(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"not installed":                  {"/run/systemd/system/x": "", "/etc/systemd/logind.conf": "RemoveIPC=yes\n"},
		"installed in a container image": {"/usr/lib/systemd/systemd-logind": "", "/etc/systemd/logind.conf": "RemoveIPC=yes\n"},
	} {
		if got := removeIPC(probetest.Write(t, machine.Options{}, files)); got != "" {
			t.Errorf("%s: RemoveIPC is %q, want none", name, got)
		}
	}
}
