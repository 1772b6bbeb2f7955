// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/testhosts"
)

// TestMPIRun reaches nodes with the launch's own mpirun. A problem of one node must be reported
// only for that node.
func TestMPIRun(t *testing.T) {
	cluster := raiseWith(t, testhosts.Options{Name: "mpi", Slots: 2})
	for name, programs := range map[string]map[string]string{
		"openmpi": {"mpirun": "mpirun.openmpi"},
		"mpich":   {"mpirun": "mpiexec.hydra", "hydra_pmi_proxy": "hydra_pmi_proxy"}, // hydra looks for hydra_pmi_proxy in its own directory
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp(filepath.Dir(binary(t)), "mpirun-") // the hosts can see this directory
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			for as, program := range programs {
				path, err := exec.LookPath(program)
				if err != nil {
					t.Skipf("NOT RUN: %s needs %s: %v", t.Name(), program, err)
				}
				if err := os.Symlink(path, filepath.Join(dir, as)); err != nil {
					t.Fatal(err)
				}
			}
			for _, test := range []struct {
				name  string
				plant map[string]plant
				want  []string
				exit  int
			}{
				{"healthy", nil, []string{}, 0},
				{"no sshd", map[string]plant{"w2": (*testhosts.Node).StopSSHD}, []string{"fail agent-start [w2]"}, 1},
			} {
				t.Run(test.name, func(t *testing.T) {
					for name, plant := range test.plant {
						plantOn(t, cluster, name, plant)
					}
					argv := []string{"env", "PATH=" + dir + ":" + os.Getenv("PATH"), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
						binary(t), "-H", testhosts.HostfilePath, "--accelerator", "cpu", "--format", "json", "--via", "mpirun", "--skip", "launcher-*,ssh-between-nodes,torch-same,deepspeed-same"}
					report := reported(t, cluster.OnHead(t.Context(), argv...))
					if diff := cmp.Diff(test.want, short(report.Findings)); diff != "" || report.ExitCode != test.exit {
						t.Errorf("exit code %d, want %d; findings (-want +got)\n%s", report.ExitCode, test.exit, diff)
					}
				})
			}
		})
	}
}
