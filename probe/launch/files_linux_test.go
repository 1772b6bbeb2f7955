// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

// asNobody calls do below a fixture's root without root's rights. On Linux a thread has its own
// user, and this thread is not used again.
func asNobody(t *testing.T, o machine.Options, do func()) {
	t.Helper()
	if os.Getuid() != 0 {
		do()
		return
	}
	if err := os.Chmod(filepath.Dir(o.Root), 0o755); err != nil { // the testing package created the directory for its own user
		t.Fatal(err)
	}
	done := make(chan bool)
	go func() {
		defer close(done)
		runtime.LockOSThread()
		const nobody = 65534
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
			t.Errorf("cannot be nobody: %v", errno)
			return
		}
		do()
	}()
	<-done
}

// TestFileOfSomebodyElse checks a file that another user owns. It exists, and the reason why it
// cannot be opened must be reported.
func TestFileOfSomebodyElse(t *testing.T) {
	o := probetest.Write(t, machine.Options{}, map[string]string{"/train.py": "x", "/private/train.py": "x"})
	if err := errors.Join(os.Chmod(o.At("/train.py"), 0), os.Chmod(o.At("/private"), 0)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(o.At("/private"), 0o700) }) // restores the mode so that the fixture can be removed
	asNobody(t, o, func() {
		got := readFile(t.Context(), o, facts.LaunchFile{Path: "/train.py"})
		if got.Problem != "permission denied" || !got.Exists || got.Digest != "" {
			t.Errorf("%+v", got)
		}
		if got := readFile(t.Context(), o, facts.LaunchFile{Path: "/private/train.py"}); got.Problem != "permission denied" || !got.Exists {
			t.Errorf("%+v", got)
		}
		o.WorkDir = "/private"
		if got := workDir(o); got.Problem != "permission denied" || !got.Exists {
			t.Errorf("%+v", got)
		}
	})
}

func TestSourcesOfSomebodyElse(t *testing.T) {
	t.Setenv("HOME", "/home/ml")
	o := probetest.Write(t, machine.Options{}, map[string]string{"/data/proj/a.py": "", "/data/proj/b/b.py": "", "/data/proj/c.py": ""})
	if err := errors.Join(os.Chmod(o.At("/data/proj/b"), 0), os.Chmod(o.At("/data/proj/c.py"), 0)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(o.At("/data/proj/b"), 0o700) })
	asNobody(t, o, func() {
		got := sources(t.Context(), o, "/data/proj")
		if got.Problem != "b: permission denied" || got.Files["c.py"] != "" || got.Count != 2 {
			t.Errorf("%+v", got)
		}
	})
}
