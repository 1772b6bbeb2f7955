// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/testhosts"
)

// TestSbcast checks that one sbcast copies the agent to the nodes of a Slurm job that lack the
// agent, with one additional step on these nodes. If sbcast fails, preflight must send the agent to
// each node. A failed or interrupted delivery must leave no file behind.
func TestSbcast(t *testing.T) {
	if err := testhosts.HasSlurm(); err != nil {
		t.Skipf("NOT RUN: %s needs a Slurm: %v", t.Name(), err)
	}
	cluster := raiseWith(t, testhosts.Options{Name: "sbcast", Slots: 2, Slurm: true})
	const real, alone = `/usr/bin/sbcast "$@"`, "--nodes=1 --ntasks=1 "
	steps := func(lack int) []string {
		return []string{alone, alone, alone, alone, fmt.Sprintf("--nodes=%d --ntasks=%[1]d ", lack)}
	}
	for _, test := range []struct {
		name   string
		warm   string // the node that already has the agent
		sbcast string // what the stand-in for sbcast does
		steps  []string
		exit   int
	}{
		{"none has it", "", real, steps(4), 0},
		{"one has it", "w2", real, steps(3), 0},
		{"it fails", "", "exit 1", steps(4), 0},
		{"it is cut off", "", real + `; exit 1`, steps(4), 0},
		{"interrupted", "", real + `; kill -INT $PPID; exec sleep 60`, steps(4), 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir, err := os.MkdirTemp(filepath.Dir(binary(t)), "sbcast-") // the hosts can see this directory
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			for name, script := range map[string]string{"sbcast": test.sbcast, "srun": `echo "$*" >>` + dir + `/asked; exec /usr/bin/srun "$@"`} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for _, n := range cluster.Nodes {
				if n.Name != test.warm {
					if _, err := n.Run(t.Context(), "rm", "-rf", "/root/.cache/preflight"); err != nil {
						t.Fatal(err)
					}
				}
			}
			argv := []string{"env", "PATH=" + dir + ":" + os.Getenv("PATH"), binary(t), "-H", testhosts.HostfilePath, "--accelerator", "cpu", "--launcher", "slurm", "--via", "srun",
				"--format", "json", "--only", "agent-start,host-names"}
			report := reported(t, cluster.InSlurmJob(t.Context(), argv...))
			if report.ExitCode != test.exit || test.exit == 0 && len(report.Findings) > 0 {
				t.Errorf("exit code %d, want %d; findings %q", report.ExitCode, test.exit, short(report.Findings))
			}
			asked, err := os.ReadFile(filepath.Join(dir, "asked"))
			if err != nil {
				t.Fatal(err)
			}
			var steps []string
			for line := range strings.Lines(string(asked)) {
				_, of, _ := strings.Cut(line, "--chdir=/ ")
				size, _, _ := strings.Cut(of, "--nodelist=")
				steps = append(steps, size)
			}
			if diff := cmp.Diff(test.steps, steps); diff != "" {
				t.Errorf("steps of so many nodes (-want +got):\n%s", diff)
			}
			for _, n := range cluster.Machines() {
				kept, err := n.Run(t.Context(), "find", "/root", "/tmp", "/dev/shm", "-xdev", "-type", "f", "-name", "preflight-*", "-printf", "%f\n")
				want := 1
				if test.exit != 0 || n == cluster.Head {
					want = 0
				}
				if err != nil || strings.Count(kept, "\n") != want || strings.Contains(kept, ".") {
					t.Errorf("%s is left with %q: %v", n.Name, kept, err)
				}
			}
		})
	}
}
