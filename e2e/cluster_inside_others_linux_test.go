// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/testhosts"
)

// TestInsideByOthers enters containers over srun and mpirun. preflight must report the small
// /dev/shm of the container, although the /dev/shm of the nodes is large enough.
func TestInsideByOthers(t *testing.T) {
	if err := testhosts.HasPodman(); err != nil {
		t.Skipf("NOT RUN: %s needs podman: %v", t.Name(), err)
	}
	if err := testhosts.HasSlurm(); err != nil {
		t.Skipf("NOT RUN: %s needs a Slurm: %v", t.Name(), err)
	}
	mpirun, err := exec.LookPath("mpirun.openmpi")
	if err != nil {
		t.Skipf("NOT RUN: %s needs mpirun.openmpi: %v", t.Name(), err)
	}
	cluster := raiseWith(t, testhosts.Options{Name: "boxed", Slots: 2, Slurm: true})
	for _, n := range cluster.Nodes {
		plantOn(t, cluster, n.Name, func(n *testhosts.Node) (testhosts.Undo, error) { return n.RunContainer("train-" + n.Name) })
	}
	dir, err := os.MkdirTemp(filepath.Dir(binary(t)), "mpirun-") // the hosts can see this directory
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Symlink(mpirun, filepath.Join(dir, "mpirun")); err != nil {
		t.Fatal(err)
	}
	inside := []string{"--in", "podman exec -i train-{node}"}
	small := []string{"warn shm-size [w1 w2 w3 w4]"}
	for _, test := range []struct {
		name  string
		job   bool
		words []string
		want  []string
	}{
		{"hosts by srun", true, []string{"--via", "srun"}, []string{}},
		{"inside by srun", true, slices.Concat([]string{"--via", "srun"}, inside), small},
		{"hosts by mpirun", false, []string{"--via", "mpirun"}, []string{}},
		{"inside by mpirun", false, slices.Concat([]string{"--via", "mpirun"}, inside), small},
	} {
		t.Run(test.name, func(t *testing.T) {
			argv := slices.Concat([]string{"env", "PATH=" + dir + ":" + os.Getenv("PATH"), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
				binary(t), "-H", testhosts.HostfilePath, "--accelerator", "cpu", "--format", "json", "--only", "shm-size,container-enter,agent-start"}, test.words)
			cmd := cluster.OnHead(t.Context(), argv...)
			if test.job {
				cmd = cluster.InSlurmJob(t.Context(), argv...)
			}
			report := reported(t, cmd)
			if diff := cmp.Diff(test.want, short(report.Findings)); diff != "" || report.ExitCode != 0 {
				t.Errorf("exit code %d, want 0; findings (-want +got)\n%s", report.ExitCode, diff)
			}
		})
	}
}
