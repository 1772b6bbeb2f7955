// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"preflight/testhosts"
)

// TestSrun checks torchrun behind a real srun: what preflight predicts and rehearses, and what
// becomes of the launch.
func TestSrun(t *testing.T) {
	t.Parallel()
	if err := testhosts.HasSlurm(); err != nil {
		t.Skipf("NOT RUN: %s needs a Slurm: %v", t.Name(), err)
	}
	binary, installed := launchedBy(t)
	o := rehearsal{planted: planted{name: "srun"}, runner: installed, binary: binary, slurm: true}
	o.raise(t)
	o.plant(t)
	const meet, static = "--rdzv_backend c10d --rdzv_endpoint w1:29400", "--master_addr w1 --rdzv_conf timeout=15"
	for _, tt := range []struct {
		name, srun, torchrun string
		trains               bool
		check                string // the check that fails
	}{
		{"a module, once on each node", "-l --output job.log", meet + " -m train", true, ""},
		{"two on each node", "--ntasks 4 --overcommit", meet + " train.py", false, "launcher-ready w1 w2"},
		{"more than the job has", "--cpus-per-task 4", meet + " train.py", false, "launcher-ready launching machine"},
		{"the same rank on each node", "-l", static + " train.py", false, "launcher-args launching machine"},
		{"a script that is not there", "-l", meet + " gone.py", false, "script-same w1 w2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			launch := slices.Concat([]string{"srun"}, strings.Fields(tt.srun), []string{filepath.Join(o.bin, "torchrun"), "--nnodes", "2", "--nproc_per_node", "1"}, strings.Fields(tt.torchrun), []string{"--patience", "20"})
			check := []string{o.binary, "--dry-run", "--format", "json", "--accelerator", "cpu", "--timeout", "30s"}
			if tt.trains {
				check = append(check, "--rehearse", "--rehearse-time", "2m")
			}
			run := func(words []string) *testhosts.Cmd {
				cmd, as := o.hosts.InSlurmJob(t.Context(), words...), o.at(t.Context(), o.hosts.Head, words...)
				cmd.Dir, cmd.Env = as.Dir, as.Env
				return cmd
			}
			verdict := judged(t, run(slices.Concat(check, []string{"--"}, launch)))
			if (verdict.ExitCode == 0) != tt.trains || tt.check != "" && !slices.Contains(verdict.named("fail"), tt.check) {
				t.Errorf("preflight ends with %d: %s %+v", verdict.ExitCode, verdict.complaint, verdict.Findings)
			}
			if out, err := run(launch).CombinedOutput(); (err == nil) != tt.trains {
				t.Errorf("the launch ends with %v\n%s", err, out)
			}
			o.leavesNothing(t)
		})
	}
}
