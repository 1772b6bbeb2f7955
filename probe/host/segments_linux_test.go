// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

// machineWithSegments returns a machine whose /dev/shm has files of 4, 2, 1 and 0 pages. Process 10
// has the first file mapped, and process 11 has the second file open.
func machineWithSegments(t *testing.T) machine.Options {
	t.Helper()
	page := os.Getpagesize()
	o := probetest.Write(t, machine.Options{}, map[string]string{
		"/etc/passwd":           "ml:x:" + strconv.Itoa(os.Getuid()) + ":0::/home/ml:/bin/sh\n",
		"/proc/self/mountinfo":  "60 1 253:0 / / rw - xfs /dev/sda rw\n61 60 0:9 / /proc rw - proc proc rw\n",
		"/dev/shm/nccl-mapped":  string(make([]byte, 4*page)),
		"/dev/shm/torch_open":   string(make([]byte, 2*page)),
		"/dev/shm/nccl-dead":    string(make([]byte, page)),
		"/dev/shm/empty":        "",
		"/dev/shm/ray/not-mine": "x",
		"/proc/11/maps":         "",
	})
	for _, name := range []string{"nccl-mapped", "torch_open", "nccl-dead", "empty"} {
		if err := os.Chmod(o.At("/dev/shm/"+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(o.At("/dev/shm/nccl-dead"), old, old); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(o.At("/dev/shm/nccl-mapped"))
	if err != nil {
		t.Fatal(err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	dead, err := os.Stat(o.At("/dev/shm/nccl-dead"))
	if err != nil {
		t.Fatal(err)
	}
	probetest.Write(t, o, map[string]string{"/proc/10/maps": fmt.Sprintf(
		"559a00000000-559a00001000 r--p 00000000 fe:99 %d /usr/bin/python3\n"+
			"7f0000000000-7f0000004000 rw-s 00000000 %02x:%02x %d      /dev/shm/nccl-mapped\n"+
			"7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0          [stack]\n",
		dead.Sys().(*syscall.Stat_t).Ino, stat.Dev>>8&0xfff, stat.Dev&0xff, stat.Ino)})
	for _, dir := range []string{"/proc/10/fd", "/proc/11/fd"} {
		if err := os.Mkdir(o.At(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(o.At("/dev/shm/torch_open"), o.At("/proc/11/fd/5")); err != nil {
		t.Fatal(err)
	}
	return o
}

// mapped returns the result for each segment: "yes", "no", "unknown".
func mapped(t *testing.T, o machine.Options) map[string]string {
	t.Helper()
	told, err := segments(t.Context(), o, o.At(shmPath))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, segment := range told {
		got[segment.Name] = "unknown"
		if segment.Mapped != nil {
			got[segment.Name] = map[bool]string{true: "yes", false: "no"}[*segment.Mapped]
		}
	}
	return got
}

func TestSegments(t *testing.T) {
	o := machineWithSegments(t)
	page := int64(os.Getpagesize())
	got, err := segments(t.Context(), o, o.At(shmPath))
	if err != nil {
		t.Fatal(err)
	}
	want := []facts.Segment{
		{Name: "nccl-mapped", Size: 4 * page, Owner: "ml", Mapped: new(true)},
		{Name: "torch_open", Size: 2 * page, Owner: "ml", Mapped: new(true)},
		{Name: "nccl-dead", Size: page, Age: 3600, Owner: "ml", Mapped: new(false)},
		{Name: "empty", Owner: "ml", Mapped: new(false)},
	}
	nearly := cmp.Comparer(func(a, b float64) bool { return a-b < 60 && b-a < 60 })
	if diff := cmp.Diff(want, got, nearly); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// refuse adds process 12, whose mappings cannot be read. Root may read any ordinary file, so the
// mappings are a write-only sysctl.
func refuse(t *testing.T, o machine.Options, status string) {
	t.Helper()
	probetest.Write(t, o, map[string]string{"/proc/12/status": status})
	if err := os.Mkdir(o.At("/proc/12/fd"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/proc/sys/net/ipv4/route/flush", o.At("/proc/12/maps")); err != nil {
		t.Fatal(err)
	}
}

func TestUnusedIsSaidOnlyWhenAllProcessesWereSeen(t *testing.T) {
	allSeen := map[string]string{"nccl-mapped": "yes", "torch_open": "yes", "nccl-dead": "no", "empty": "no"}
	for name, test := range map[string]struct {
		alter func(t *testing.T, o machine.Options)
		want  map[string]string
	}{
		"all": {func(*testing.T, machine.Options) {}, allSeen},
		"the host's shared memory in a container": {func(t *testing.T, o machine.Options) {
			if err := os.MkdirAll(o.At("/proc/self/ns"), 0o755); err != nil {
				t.Fatal(err)
			}
			for name, target := range map[string]string{"ipc": machine.InitialIPC, "pid": "pid:[4026533001]"} {
				if err := os.Symlink(target, o.At("/proc/self/ns/"+name)); err != nil {
					t.Fatal(err)
				}
			}
		}, map[string]string{"nccl-mapped": "yes", "torch_open": "yes", "nccl-dead": "unknown", "empty": "unknown"}},
		"no mount table": {func(t *testing.T, o machine.Options) {
			if err := os.Remove(o.At("/proc/self/mountinfo")); err != nil {
				t.Fatal(err)
			}
		}, map[string]string{"nccl-mapped": "yes", "torch_open": "yes", "nccl-dead": "unknown", "empty": "unknown"}},
		"a process that refuses and maps shared memory": {func(t *testing.T, o machine.Options) {
			refuse(t, o, "VmRSS: 9 kB\nRssShmem: 4 kB\n")
		}, map[string]string{"nccl-mapped": "yes", "torch_open": "yes", "nccl-dead": "unknown", "empty": "unknown"}},
		"a process that refuses and maps none": {func(t *testing.T, o machine.Options) {
			refuse(t, o, "VmRSS: 9 kB\nRssShmem: 0 kB\n")
		}, allSeen},
		"a process that ended": {func(t *testing.T, o machine.Options) {
			if err := os.Mkdir(o.At("/proc/12"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, allSeen},
	} {
		t.Run(name, func(t *testing.T) {
			o := machineWithSegments(t)
			test.alter(t, o)
			if diff := cmp.Diff(test.want, mapped(t, o)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOwnPrivateSegmentIsJudgedByOwnProcesses(t *testing.T) {
	o := machineWithSegments(t)
	refuse(t, o, "VmRSS: 9 kB\nRssShmem: 4 kB\n")
	if err := os.Chown(o.At("/proc/12"), os.Geteuid()+1, -1); err != nil {
		t.Skipf("SKIPPED: needs root to give a process to another user: %v", err)
	}
	if err := os.Chmod(o.At("/dev/shm/empty"), 0o666); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"nccl-mapped": "yes", "torch_open": "yes", "nccl-dead": "no", "empty": "unknown"}
	if diff := cmp.Diff(want, mapped(t, o)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestProcessesListed(t *testing.T) {
	const table = "60 1 253:0 / / rw - xfs /dev/sda rw\n61 60 0:9 / /proc rw - proc proc rw"
	root := os.Geteuid() == 0
	for options, want := range map[string]visibility{
		"":                          {all: true, ownUser: true},
		",hidepid=0":                {all: true, ownUser: true},
		",hidepid=2":                {all: root, ownUser: true},
		",gid=4,hidepid=ptraceable": {all: root, ownUser: true},
	} {
		o := probetest.Write(t, machine.Options{}, map[string]string{"/proc/self/mountinfo": table + options + "\n"})
		if got := processesListed(o); got != want {
			t.Errorf("/proc mounted rw%s lists %+v, want %+v", options, got, want)
		}
	}
}

func TestParseMapsShared(t *testing.T) {
	for status, want := range map[string]bool{
		"Name:\tpython3\nVmRSS:\t  900 kB\nRssAnon:\t 1 kB\nRssShmem:\t    4096 kB\n": true,
		"Name:\tsshd\nVmRSS:\t  900 kB\nRssShmem:\t       0 kB\n":                     false,
		"Name:\told kernel\nVmRSS:\t  900 kB\n":                                       true,
		"Name:\tkworker/0:1\n":                                                        false,
		"":                                                                            false,
	} {
		if got := parseMapsShared(status); got != want {
			t.Errorf("parseMapsShared(%q) = %v", status, got)
		}
	}
}

// TestSegmentsOfThisMachine uses the real /dev/shm and /proc. On them the numbers of devices and
// inodes must match.
func TestSegmentsOfThisMachine(t *testing.T) {
	files := map[string]*os.File{}
	for _, kind := range []string{"mapped", "open", "dead"} {
		file, err := os.CreateTemp(shmPath, "preflight-test-"+kind+"-")
		if err != nil {
			t.Skipf("SKIPPED: no usable /dev/shm: %v", err)
		}
		t.Cleanup(func() { os.Remove(file.Name()) })
		if err := file.Truncate(int64(os.Getpagesize())); err != nil {
			t.Fatal(err)
		}
		files[kind] = file
	}
	memory, err := syscall.Mmap(int(files["mapped"].Fd()), 0, os.Getpagesize(), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(memory)
	files["mapped"].Close()
	files["dead"].Close()
	defer files["open"].Close()

	got := mapped(t, machine.Options{})
	for kind, used := range map[string]bool{"mapped": true, "open": true, "dead": false} {
		// Whether "dead" is "no" or "unknown" depends on the other processes of this machine, and
		// on which of them can be read.
		if told := got[filepath.Base(files[kind].Name())]; told == "" || (told == "yes") != used {
			t.Errorf("the %s segment is told as mapped: %q", kind, told)
		}
	}
}
