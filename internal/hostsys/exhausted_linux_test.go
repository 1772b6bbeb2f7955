// SPDX-License-Identifier: Apache-2.0

package hostsys

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestChildOfWhoHasNoFileLeft: a child is started after other goroutines have closed files. If no
// goroutine closes one, the error names this machine's shortage. The test runs in a separate
// process that has opened as many files as it may.
func TestChildOfWhoHasNoFileLeft(t *testing.T) {
	const role = "PREFLIGHT_TEST_NO_FILES"
	if os.Getenv(role) == "" {
		for _, gives := range []string{"yes", "no"} {
			cmd := exec.Command(os.Args[0], "-test.run=^TestChildOfWhoHasNoFileLeft$")
			cmd.Env = append(os.Environ(), role+"="+gives)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("given back: %s: %v\n%s", gives, err, out)
			}
		}
		return
	}
	const most = 64
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
		t.Fatal(err)
	}
	var taken []*os.File
	for {
		file, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		taken = append(taken, file)
	}
	gives := os.Getenv(role) == "yes"
	if gives {
		time.AfterFunc(3*tryAgain, func() {
			for _, file := range taken {
				file.Close()
			}
		})
	}
	_, _, err := Child{Path: "/bin/true"}.Run(t.Context())
	if gives != (err == nil) || (Shortage(err) != "") == gives {
		t.Errorf("%d files were taken: %v", len(taken), err)
	}
	if gives {
		return
	}
	last := taken[len(taken)-1]
	for _, file := range taken[:len(taken)-1] {
		file.Close()
	}
	cmd := exec.Command("/bin/true")
	cmd.Stdin = last // last has the highest possible descriptor, and Go needs a higher one to start the child
	if err := Run(cmd); Shortage(err) == "" {
		t.Errorf("with file %d as standard input: %v, which names no shortage", last.Fd(), err)
	}
}
