// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"preflight/testhosts/remotetest"
)

// mounted returns a node in a mount namespace of its own. In that namespace, setup mounts a file
// system on every directory in which the agent may be stored. These are $home, /var/tmp, /tmp and
// /dev/shm, in the order in which they are tried.
func mounted(t *testing.T, setup string) *remotetest.Node {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: making file systems that are full, read-only or noexec takes root")
	}
	return &remotetest.Node{
		Env: []string{"HOME=/root"},
		Shell: []string{"unshare", "--mount", "--propagation", "private", "/bin/sh", "-ec",
			"umask 022; full() { head -c 2M /dev/zero >$1/filler 2>/dev/null || true; };" + setup + "\n exec /bin/sh -c \"$0\""},
	}
}

const (
	roomy    = "mount -t tmpfs -o mode=1777 none "
	readOnly = "mount -t tmpfs -o ro,mode=1777 none "
	noexec   = "mount -t tmpfs -o noexec,mode=1777 none "
	small    = "mount -t tmpfs -o size=1M,mode=1777 none "
)

func TestFallbackDirectories(t *testing.T) {
	remotetest.NoLeaks(t)
	for name, c := range map[string]struct {
		setup string
		path  string // the directory in which the agent must be stored
	}{
		"home":               {roomy + "/root", "/root/.cache/preflight/"},
		"XDG_CACHE":          {roomy + "/mnt; mkdir /mnt/cache; export XDG_CACHE_HOME=/mnt/cache", "/mnt/cache/preflight/"},
		"XDG relative":       {roomy + "/root; export XDG_CACHE_HOME=cache", "/root/.cache/preflight/"},
		"home is ro":         {readOnly + "/root;" + roomy + "/var/tmp", "/var/tmp/preflight-0/"},
		"run directory":      {readOnly + "/root;" + roomy + "/mnt; export XDG_RUNTIME_DIR=/mnt", "/mnt/preflight/"},
		"home noexec":        {noexec + "/root;" + roomy + "/var/tmp", "/var/tmp/preflight-0/"},
		"home small":         {small + "/root;" + roomy + "/var/tmp", "/var/tmp/preflight-0/"},
		"home full":          {small + "/root; full /root;" + roomy + "/var/tmp", "/var/tmp/preflight-0/"},
		"home missing":       {"export HOME=/nonexistent/u;" + roomy + "/var/tmp", "/var/tmp/preflight-0/"},
		"no home":            {"unset HOME; cd /; " + readOnly + "/root;" + roomy + "/var/tmp; mount -t tmpfs -o ro none /mnt; export XDG_CACHE_HOME=/mnt", "/var/tmp/preflight-0/"},
		"no home, root open": {"unset HOME; cd /; " + roomy + "/var/tmp", "/var/tmp/preflight-0/"},
		"home loose":         {roomy + "/root; mkdir -p /root/.cache/preflight; chmod 755 /root/.cache/preflight;" + roomy + "/var/tmp", "/var/tmp/preflight-0/"},
		"another's":          {readOnly + "/root;" + roomy + "/var/tmp; mkdir -m 700 /var/tmp/preflight-0; chown 1 /var/tmp/preflight-0;" + roomy + "/tmp", "/tmp/preflight-0/"},
		"a link":             {readOnly + "/root;" + roomy + "/var/tmp; mkdir -m 700 /var/tmp/d; ln -s d /var/tmp/preflight-0;" + roomy + "/tmp", "/tmp/preflight-0/"},
		"a file":             {readOnly + "/root;" + roomy + "/var/tmp; touch /var/tmp/preflight-0;" + roomy + "/tmp", "/tmp/preflight-0/"},
		"only shm":           {readOnly + "/root;" + small + "/var/tmp;" + noexec + "/tmp;" + roomy + "/dev/shm", "/dev/shm/preflight-0/"},
	} {
		t.Run(name, func(t *testing.T) {
			agent, trace, err := start(t, mounted(t, c.setup), 20*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			var left []string
			if err := agent.Call(t.Context(), "list", "/root/.cache", func(_ string, body json.RawMessage) {
				if err := json.Unmarshal(body, &left); err != nil {
					t.Error(err)
				}
			}); err != nil {
				t.Error(err)
			}
			bare := strings.Contains(c.setup, "/root;") && name != "home loose"
			if bare && c.path != "/root/.cache/preflight/" && len(left) > 0 {
				t.Errorf("left in the home: %q", left)
			}
			if dir, _ := filepath.Split(trace.Path); dir != c.path || !trace.Delivered {
				t.Errorf("delivered %v to %s, want %s", trace.Delivered, trace.Path, c.path)
			}
		})
	}
}

// TestFallbackIsFoundWarm: an agent that had to be stored in a fallback directory is found there
// again.
func TestFallbackIsFoundWarm(t *testing.T) {
	remotetest.NoLeaks(t)
	store := t.TempDir()
	for _, cold := range []bool{true, false} {
		_, trace, err := start(t, mounted(t, readOnly+"/root; mount --bind "+store+" /var/tmp"), 20*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if trace.Delivered != cold || !strings.HasPrefix(trace.Path, "/var/tmp/preflight-0/") {
			t.Errorf("delivered %v, want %v; path %s", trace.Delivered, cold, trace.Path)
		}
	}
}

// TestNoDirectory: on nodes without a usable directory, the cause is the one that a person can fix.
// Every directory is reported with its reason.
func TestNoDirectory(t *testing.T) {
	remotetest.NoLeaks(t)
	everywhere := func(mount string) string {
		return mount + "/root;" + mount + "/var/tmp;" + mount + "/tmp;" + mount + "/dev/shm"
	}
	for name, c := range map[string]struct {
		setup string
		cause Cause
		why   string // the reason for every directory
	}{
		"read-only": {everywhere(readOnly), NoDirectory, "Read-only file system"},
		"noexec":    {everywhere(noexec), NoExec, "(noexec)"},
		"small":     {everywhere(small), DiskFull, "No space left"},
		"squatted": {roomy + "/var/tmp;" + roomy + "/tmp;" + roomy + "/dev/shm;" + noexec + "/root;" +
			"for d in /var/tmp /tmp /dev/shm; do mkdir $d/preflight-0; chown daemon $d/preflight-0; done", Squatted, ""},
		"squatted by links": {noexec + "/root;" + roomy + "/var/tmp;" + roomy + "/tmp;" + noexec + "/dev/shm; ln -s /mnt /var/tmp/preflight-0; touch /tmp/preflight-0; chown -h daemon /var/tmp/preflight-0 /tmp/preflight-0", Squatted, ""},
		"full":              {everywhere(small) + "; full /root; full /var/tmp; full /tmp; full /dev/shm", DiskFull, "No space left"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := start(t, mounted(t, c.setup), 20*time.Second)
			if err == nil || err.Stage != StageDeliver || err.Cause != c.cause {
				t.Fatalf("got %v, want deliver: %s", err, c.cause)
			}
			tried := strings.Split(err.Detail["tried"], "; ")
			for i, dir := range []string{"/root/.cache/preflight: ", "/var/tmp/preflight-0: ", "/tmp/preflight-0: ", "/dev/shm/preflight-0: "} {
				if i >= len(tried) || !strings.HasPrefix(tried[i], dir) || !strings.Contains(tried[i], c.why) {
					t.Errorf("tried %q: want %s … %s", tried, dir, c.why)
				}
			}
		})
	}
}

// TestSquattedDirectories: directories of other users are reported with their owner, and do not
// keep the delivery from the next directory. If a file system does not allow programs, only that
// file system is reported.
func TestSquattedDirectories(t *testing.T) {
	remotetest.NoLeaks(t)
	setup := noexec + "/root;" + roomy + "/var/tmp;" + roomy + "/tmp; chmod 777 /tmp;" + roomy + "/dev/shm;" +
		"mkdir -m 700 /var/tmp/preflight-0; chown daemon /var/tmp/preflight-0;"
	_, trace, err := start(t, mounted(t, setup), 20*time.Second)
	if err != nil || !strings.HasPrefix(trace.Path, "/dev/shm/preflight-0/") {
		t.Errorf("%v; it lies at %s", err, trace.Path)
	}
	_, _, err = start(t, mounted(t, setup+"mount -o remount,noexec /dev/shm;"), 20*time.Second)
	if err == nil {
		t.Fatal("it worked")
	}
	tried := strings.Split(err.Detail["tried"], "; ")
	want := []string{"/root/.cache/preflight: ", "/var/tmp/preflight-0: (taken: drwx------ of daemon)", "/tmp/preflight-0: (others may write to its parent)", "/dev/shm/preflight-0: "}
	for i, prefix := range want {
		if i >= len(tried) || !strings.HasPrefix(tried[i], prefix) || strings.HasSuffix(prefix, " ") != strings.Contains(tried[i], noexecMark) {
			t.Errorf("tried %q, want %q", tried, want)
		}
	}
}

// TestNoPrograms checks that no directory is blamed if a startup file has broken PATH.
func TestNoPrograms(t *testing.T) {
	remotetest.NoLeaks(t)
	n := &remotetest.Node{Home: t.TempDir(), Env: []string{"PATH=/opt"}}
	_, _, err := start(t, n, 20*time.Second)
	if err == nil || err.Stage != StageDeliver || err.Cause != NoPrograms {
		t.Fatalf("got %v, want deliver: %s", err, NoPrograms)
	}
}

// TestPlantedBinaryIsNotRun: a file that another user could have put in place of the agent is not
// run, and does not block the delivery.
func TestPlantedBinaryIsNotRun(t *testing.T) {
	remotetest.NoLeaks(t)
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: giving files to another user takes root")
	}
	own, err := OpenBinary(self)
	if err != nil {
		t.Fatal(err)
	}
	for _, planted := range []string{".cache/preflight/preflight-" + own.Hash, ".cache/preflight"} {
		n := &remotetest.Node{Home: t.TempDir(), Env: []string{"XDG_RUNTIME_DIR=" + t.TempDir()}}
		remotetest.Script(t, filepath.Join(n.Home, ".cache/preflight/preflight-"+own.Hash), "echo planted; exit 9")
		if err := os.Chmod(filepath.Join(n.Home, ".cache/preflight"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(filepath.Join(n.Home, planted), 1, 1); err != nil {
			t.Fatal(err)
		}
		_, trace, failure := start(t, n, 20*time.Second)
		if failure != nil {
			t.Fatal(failure)
		}
		if !trace.Delivered || len(trace.Noise) > 0 {
			t.Errorf("%s: delivered %v, noise %q", planted, trace.Delivered, trace.Noise)
		}
	}
}

// TestLinkedDirectoryIsNotUsed: a link in place of preflight's directory may lead to a place where
// other users can write.
func TestLinkedDirectoryIsNotUsed(t *testing.T) {
	remotetest.NoLeaks(t)
	own, err := OpenBinary(self)
	if err != nil {
		t.Fatal(err)
	}
	n := &remotetest.Node{Home: t.TempDir(), Env: []string{"XDG_RUNTIME_DIR=" + t.TempDir()}}
	remotetest.Script(t, filepath.Join(n.Home, "elsewhere/preflight-"+own.Hash), "echo planted; exit 9")
	if err := os.Mkdir(filepath.Join(n.Home, ".cache"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../elsewhere", filepath.Join(n.Home, ".cache/preflight")); err != nil {
		t.Fatal(err)
	}
	if _, trace, failure := start(t, n, 20*time.Second); failure != nil || !trace.Delivered || len(trace.Noise) > 0 {
		t.Errorf("%v; trace %+v", failure, trace)
	}
}

// install runs the test binary as a node would. The binary is copied to dir under the given name.
func install(t *testing.T, dir, name, hash string) ([]byte, error) {
	t.Helper()
	content, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, content, 0o700); err != nil {
		t.Fatal(err)
	}
	return exec.Command(path, "agent", "install", dir, hash).CombinedOutput()
}

func TestInstallKeepsAFewBuilds(t *testing.T) {
	dir := t.TempDir()
	own, err := OpenBinary(self)
	if err != nil {
		t.Fatal(err)
	}
	build := func(digit string) string { return "preflight-" + strings.Repeat(digit, 64) }
	age := func(name string, ago time.Duration) {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(-ago)); err != nil {
			t.Fatal(err)
		}
	}
	for i, digit := range []string{"1", "2", "3", "4", "5"} {
		age(build(digit), time.Duration(i-1)*time.Hour) // the first build is from a node whose clock is ahead
	}
	age(build("6")+".00ff", 2*time.Hour)
	age(build("7")+".00ff", time.Minute)
	age("preflight-try.00ff", 2*time.Hour)
	age("preflight-notes", 1000*time.Hour)
	if out, err := install(t, dir, build("8")+".1234", own.Hash); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, entry := range entries {
		left = append(left, entry.Name())
	}
	want := []string{build("1"), build("2"), build("3"), build("7") + ".00ff", "preflight-notes", "preflight-" + own.Hash}
	slices.Sort(want)
	if !slices.Equal(left, want) {
		t.Errorf("left %q\nwant %q", left, want)
	}
}

func TestInstallRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ hash, text string }{
		"other bytes": {strings.Repeat("ab", 32), "what arrived has SHA-256"},
		"no hash":     {"../../etc/passwd", "is not a SHA-256"},
	} {
		if out, err := install(t, dir, "arrived", c.hash); err == nil || !strings.Contains(string(out), c.text) {
			t.Errorf("%s: %v: %s, want …%s…", name, err, out, c.text)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 || entries[0].Name() != "arrived" {
			t.Errorf("%s: left %v, %v", name, entries, err)
		}
	}
}

func TestClean(t *testing.T) {
	remotetest.NoLeaks(t)
	// This user ID belongs to no user, so that the test does not clean this machine's real
	// directories.
	nobody := tools(t, "", map[string]string{"id": "echo 4100000001"})
	n := &remotetest.Node{Home: filepath.Join(t.TempDir(), "a home"), Env: []string{nobody}}
	if err := os.Mkdir(n.Home, 0o755); err != nil {
		t.Fatal(err)
	}
	_, trace, failure := start(t, n, 20*time.Second)
	if failure != nil {
		t.Fatal(failure)
	}
	dir := filepath.Join(n.Home, ".cache/preflight")
	for _, want := range [][]string{{trace.Path, dir}, nil} {
		s := &cleaning{ending: ending{host: "w1"}}
		if err := s.run(connect(t, n)); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.removed, want) || len(s.kept) > 0 {
			t.Errorf("removed %q, kept %q, want %q", s.removed, s.kept, want)
		}
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
}

func TestCleanTellsWhatItCannotRemove(t *testing.T) {
	remotetest.NoLeaks(t)
	n := mounted(t, roomy+"/root; mkdir -p -m 700 /root/.cache/preflight; cd /; touch /root/.cache/preflight/preflight-1; touch /root/.cache/preflight/other; mount -o remount,ro /root")
	s := &cleaning{ending: ending{host: "w1"}}
	if err := s.run(connect(t, n)); err != nil {
		t.Fatal(err)
	}
	if len(s.removed) > 0 || len(s.kept) != 1 || !strings.Contains(s.kept[0], "Read-only") {
		t.Errorf("removed %q, kept %q", s.removed, s.kept)
	}
	broken := loginShell("echo hi; exit 3")
	s = &cleaning{ending: ending{host: "w1"}}
	if err := s.run(connect(t, &broken)); err == nil || err.Cause != ForcedCommand {
		t.Errorf("got %v, want forced-command", err)
	}
}
