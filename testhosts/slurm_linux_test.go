// SPDX-License-Identifier: Apache-2.0

package testhosts_test

import (
	"strings"
	"testing"

	"preflight/testhosts"
)

// TestSlurm checks that a job gets all nodes, even restarted ones, and that ssh works only to nodes
// where the job has a process.
func TestSlurm(t *testing.T) {
	if err := testhosts.HasSlurm(); err != nil {
		t.Skipf("NOT RUN: %s needs a Slurm: %v", t.Name(), err)
	}
	c := testhosts.RaiseFor(t, testhosts.Options{Name: "slurm", Nodes: 2, Slots: 2, Slurm: true})
	inJob := func(argv ...string) string {
		out, err := c.InSlurmJob(t.Context(), argv...).CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return string(out)
	}
	if err := c.Nodes[1].Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out := inJob("srun", "sh", "-c", "hostname; echo $SLURM_NTASKS_PER_NODE"); strings.Count(out, "w1") != 2 || strings.Count(out, "w2") != 2 {
		t.Errorf("%q", out)
	}
	undo, err := c.Nodes[1].AdmitJobs()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := c.Head.Run(t.Context(), "ssh", "w2", "hostname"); err == nil || !strings.Contains(out, "pam_slurm_adopt") {
		t.Errorf("without a job: %q, %v", out, err)
	}
	if out := inJob("ssh", "w2", "hostname"); !strings.Contains(out, "w2") {
		t.Errorf("in a job: %q", out)
	}
	if err := undo(); err != nil {
		t.Fatal(err)
	}
	if undo, err = c.Nodes[1].StopSlurmd(); err != nil {
		t.Fatal(err)
	}
	if out, _ := c.Nodes[1].Run(t.Context(), "pgrep", "-x", "slurmd"); out != "" {
		t.Errorf("slurmd goes on: %s", out)
	}
	if err := undo(); err != nil {
		t.Fatal(err)
	}
}
