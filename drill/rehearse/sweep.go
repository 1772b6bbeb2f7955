// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"preflight/internal/hostsys"
)

// sweepTime limits how long the sweep waits for killed processes. A process that waits for a
// device or a network file system may not end.
const sweepTime = 1500 * time.Millisecond

// Swept is what a sweep has ended and left.
type Swept struct {
	Ended []string // the processes that were alive, each with the place in the kernel where it waited
	Left  []string // the processes that did not end, and the directories that could not be removed
}

// Sweep ends all processes of a rehearsal on this machine. It recognises them by the whole ID, in
// their environment or on their command line, and never by the name of a program. It also removes
// the directories that a torchrun of the rehearsal leaves behind when it is killed.
func Sweep(id string) (swept Swept) {
	known, directories := map[int]bool{}, map[string]bool{}
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		found := marked(id)
		for _, pid := range found {
			if !known[pid] {
				known[pid] = true
				swept.Ended = append(swept.Ended, describe(pid))
				if dir := elastic(pid); dir != "" {
					directories[dir] = true
				}
			}
			_ = syscall.Kill(pid, syscall.SIGKILL) // a process that has ended by itself is as good
		}
		if len(found) > 0 && time.Since(began) < sweepTime {
			continue
		}
		for _, pid := range found {
			swept.Left = append(swept.Left, describe(pid))
		}
		for dir := range directories {
			if err := os.RemoveAll(dir); err != nil {
				swept.Left = append(swept.Left, err.Error())
			}
		}
		return swept
	}
}

// made matches the name that Python gives a temporary directory of torchrun (tempfile.mkdtemp).
var made = regexp.MustCompile(`^torchelastic_[a-z0-9_]{8}$`)

// elastic returns the temporary directory that torchrun made for the errors of a rank. It is "" if
// the process is not a rank of torchrun, and if the user chose the directory with --log-dir.
//
// Source: torch/distributed/elastic/multiprocessing/api.py and errors/__init__.py, 1.13 to 2.15.
func elastic(pid int) string {
	environ, _ := hostsys.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ")) // empty if the process has ended
	variables := map[string]string{}
	for variable := range bytes.SplitSeq(environ, []byte{0}) {
		name, value, _ := strings.Cut(string(variable), "=")
		variables[name] = value
	}
	temporary := cmp.Or(variables["TMPDIR"], variables["TEMP"], variables["TMP"], "/tmp") // the order of Python's tempfile
	below, isBelow := strings.CutPrefix(variables["TORCHELASTIC_ERROR_FILE"], strings.TrimSuffix(temporary, "/")+"/")
	if name, _, _ := strings.Cut(below, "/"); isBelow && made.MatchString(name) {
		return filepath.Join(temporary, name)
	}
	return ""
}

// marked returns the processes that carry the ID, without this process and those that have ended.
// The processes of other users cannot be read and are not ours.
func marked(id string) (pids []int) {
	entries, _ := os.ReadDir("/proc") // without /proc there is nothing to find
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		for _, file := range []string{"environ", "cmdline"} {
			text, err := hostsys.ReadFile(filepath.Join("/proc", entry.Name(), file))
			if err == nil && bytes.Contains(text, []byte(id)) {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

// describe returns a process's name and number, and where in the kernel it waits.
func describe(pid int) string {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	words, _ := hostsys.ReadFile(filepath.Join(dir, "cmdline"))
	name := strings.TrimSpace(strings.ReplaceAll(string(words), "\x00", " "))
	if len(name) > 160 {
		name = strings.ToValidUTF8(name[:160], "") + "…"
	}
	text := fmt.Sprintf("%d %s", pid, name)
	if wchan, _ := hostsys.ReadFile(filepath.Join(dir, "wchan")); len(wchan) > 1 {
		text += ", waits in " + string(wchan)
	}
	return text
}
