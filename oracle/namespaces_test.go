// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"preflight/facts"
	"preflight/probe"
)

// kinds lists the kinds of namespaces of which a test can have its own.
var kinds = []string{"net", "mnt", "uts"}

// inOwnNamespaces runs the calling test again in a new process. The process has its own network,
// mounts and host name, which end with the process. inOwnNamespaces returns true in the new
// process.
func inOwnNamespaces(t *testing.T) bool {
	t.Helper()
	const outside = "PREFLIGHT_ORACLE_OUTSIDE"
	here := namespaces(t)
	if before := strings.Fields(os.Getenv(outside)); len(before) == len(here) {
		for i := range here {
			if here[i] == before[i] {
				t.Fatalf("this is %s, which is the machine's", here[i])
			}
		}
		hideMachine(t)
		return true
	}
	if os.Geteuid() != 0 {
		t.Fatal("namespaces need root")
	}
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
	// A python3 of pyenv is a shell script, which takes a tenth of a second each time it starts.
	again.Env = append(os.Environ(), outside+"="+strings.Join(here, " "), "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
	again.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL, // the kernel sends this signal when the thread ends, so the thread is locked
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out, err := again.CombinedOutput()
	if t.Logf("%s", out); err != nil {
		t.Error(err)
	}
	return false
}

// namespaces returns the IDs of the namespaces of this process.
func namespaces(t *testing.T) []string {
	t.Helper()
	var here []string
	for _, kind := range kinds {
		link, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			t.Fatal(err)
		}
		here = append(here, link)
	}
	return here
}

// hideMachine hides the machine's own configuration. It also prevents the test from changing the
// machine's files for name lookups.
func hideMachine(t *testing.T) {
	t.Helper()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	cover(t, "/etc/hosts", "")
	// Because the line has an action in brackets (it is the default action), a probe resolves names
	// with glibc. Go's own resolver would use contents of the files that are up to five seconds
	// old.
	cover(t, "/etc/nsswitch.conf", "hosts: files [SUCCESS=return]\n")
	for _, path := range []string{"/etc/nccl.conf", filepath.Join(home, ".nccl.conf")} {
		if _, err := os.Stat(path); err == nil {
			cover(t, path, "")
		}
	}
}

// cover mounts another text over an existing file.
func cover(t *testing.T, path, text string) {
	t.Helper()
	ours := filepath.Join(t.TempDir(), filepath.Base(path))
	if err := os.WriteFile(ours, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(ours, path, "", unix.MS_BIND, ""); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) }) // while it is mounted, the test's file cannot be removed
}

// look probes the given sections in the namespaces of the test. For SectionNames, the probe looks
// up the given names.
func look(t *testing.T, names []string, sections ...facts.Section) *facts.Node {
	t.Helper()
	var node facts.Node
	var unseen []string
	probe.Run(t.Context(), probe.Options{Names: names, Publishes: true}, sections, func(section facts.Section, seen facts.Facts, missing string) {
		if missing != "" {
			unseen = append(unseen, fmt.Sprintf("%s: %s", section, missing))
		}
		node.Take(section, seen)
	})
	if unseen != nil {
		t.Fatal(unseen)
	}
	return &node
}
