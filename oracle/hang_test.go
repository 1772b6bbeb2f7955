// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"preflight/diagnose/hang"
)

// late makes the rank on w2 wait for a file before it imports anything.
const late = `
import os, socket, time
while socket.gethostname() == "w2" and not os.path.exists("go"):
    time.sleep(0.1)
`

// TestHangOfLaunchers checks jobs of every real launcher whose rank on w2 is late. preflight hang
// must name this rank and the line at which its Python waits. After that the rank continues, and
// the job must train undisturbed.
func TestHangOfLaunchers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("namespace hosts need root")
	}
	binary := buildPreflight(t, t.TempDir())
	installed := runners(t)[newestDeepSpeed]
	if installed.bin == "" {
		t.Fatalf("DeepSpeed %s is needed: run oracle/setup.sh", newestDeepSpeed)
	}
	installed.patience = 4 * time.Minute // the limit may be long if no rank waits in vain
	for _, by := range launchers {
		t.Run(by.name, func(t *testing.T) {
			o := &rehearsal{planted: planted{files: map[string]string{"train.py": late + string(training)}}, launcher: by, runner: installed, binary: binary}
			o.raise(t)
			o.plant(t)
			type result struct {
				trained bool
				log     string
			}
			launched := make(chan result, 1)
			go func() {
				trained, _, log := o.launch(t)
				launched <- result{trained, log}
			}()
			o.awaitLate(t)
			if err := os.WriteFile(filepath.Join(o.dir, "go"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if end := <-launched; !end.trained {
				t.Errorf("a job that was looked at does not train:\n%s", end.log)
			}
		})
	}
}

// awaitLate runs preflight hang until it names the late rank. A job that has just started has only
// launchers. Open MPI does not give its ranks a rendezvous address, and the answer must say this.
func (o *rehearsal) awaitLate(t *testing.T) {
	t.Helper()
	answer := regexp.MustCompile(`^1 of 2 ranks have joined at \S+; w2: rank 1: not connected to `)
	if o.launcher.name == "openmpi" {
		answer = regexp.MustCompile(`^a job of 2 ranks; no variable of the ranks holds the master address`)
	}
	var report hang.Report
	for end := time.Now().Add(o.patience / 2); time.Now().Before(end); time.Sleep(time.Second) {
		out, _ := o.at(t.Context(), o.hosts.Head, o.binary, "hang", "-H", "hostfile", "--stacks", "--format", "json").Output() // the exit code depends on the answer
		report = hang.Report{}
		if json.Unmarshal(out, &report) == nil && answer.MatchString(report.Answer) && slices.ContainsFunc(report.Named, isLate) {
			return
		}
	}
	text, _ := json.Marshal(report.Named)
	t.Errorf("answer %q, of %s", report.Answer, text)
}

// isLate reports whether n is the late rank, with a stack at the line at which the rank waits.
func isLate(n hang.Named) bool {
	return n.Node == "w2" && n.Member == "rank 1" && n.Stack != nil && strings.Contains(strings.Join(n.Stack.Lines, "\n"), "<module> (train.py:4)")
}
