// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks/catalogue"
	"preflight/testhosts"
)

// TestSlurm checks that a refused ssh login is not a problem of a node if srun starts the ranks,
// and that --via srun needs no ssh.
func TestSlurm(t *testing.T) {
	if err := testhosts.HasSlurm(); err != nil {
		t.Skipf("NOT RUN: %s needs a Slurm: %v", t.Name(), err)
	}
	cluster := raiseWith(t, testhosts.Options{Name: "slurm", Slots: 2, Slurm: true})
	noSSHD := map[string]plant{"w2": (*testhosts.Node).StopSSHD, "w4": (*testhosts.Node).StopSSHD}
	troubled := map[string]plant{
		"w2": func(n *testhosts.Node) (testhosts.Undo, error) { return n.ShrinkSHM(64 << 20) },
		"w3": func(n *testhosts.Node) (testhosts.Undo, error) { return n.SetMTU(1400) },
	}
	adopts := map[string]plant{"w3": (*testhosts.Node).AdmitJobs}
	// The node does not know the job. Either pam_slurm_adopt cannot ask slurmd, or the job belongs
	// to another user.
	turnedAway := map[string]plant{"w3": func(n *testhosts.Node) (testhosts.Undo, error) {
		undo, err := n.AdmitJobs()
		if err == nil {
			_, err = n.Run(t.Context(), "sed", "-i", "/slurmstepd/d", "/run/slurm-adopt")
		}
		return undo, err
	}}
	noKey := map[string]plant{"w2": (*testhosts.Node).RemoveAuthorizedKey}
	for _, test := range []struct {
		name  string
		plant map[string]plant
		job   bool // preflight runs inside a job with all nodes
		words []string
		want  []string
		exit  int
	}{
		{"healthy by srun", nil, true, []string{"--launcher", "slurm", "--via", "srun"}, []string{}, 0},
		{"no sshd", noSSHD, true, []string{"--launcher", "slurm", "--via", "ssh"}, []string{"unknown ssh-reach [w2 w4]"}, 2},
		{"no sshd, by the launcher's way", noSSHD, true, []string{"--launcher", "slurm"}, []string{}, 0},
		{"small shm and MTU", troubled, true, nil, []string{"warn shm-size [w2]", "warn path-mtu [w3]"}, 0},
		{"small shm and MTU, by srun", troubled, true, []string{"--via", "srun"}, []string{"warn shm-size [w2]", "warn path-mtu [w3]"}, 0},
		{"no sshd, by srun", noSSHD, true, []string{"--launcher", "slurm", "--via", "srun"}, []string{}, 0},
		{"no sshd, and mpirun in a job goes by srun", noSSHD, true, []string{"--launcher", "openmpi", "--only", "shm-size"}, []string{}, 0},
		{"no sshd, and mpirun in a job", noSSHD, true, []string{"--launcher", "openmpi", "--only", "ssh-*", "--via", "ssh"}, []string{"unknown ssh-reach [w2 w4]"}, 2},
		{"no sshd, and mpirun outside of any", noSSHD, false, []string{"--launcher", "openmpi", "--only", "ssh-reach"}, []string{"fail ssh-reach [w2 w4]"}, 1},
		{"no sshd, and torchrun", noSSHD, false, []string{"--rendezvous", "c10d", "--rdzv-endpoint", "w1"}, []string{"unknown ssh-reach [w2 w4]"}, 2},
		{"no job, and pdsh", adopts, false, nil, []string{"fail ssh-login [w3]"}, 1},
		{"no job, and srun", adopts, false, []string{"--launcher", "slurm"}, []string{"unknown ssh-login [w3]"}, 2},
		{"turned away in a job, and mpirun", turnedAway, true, []string{"--launcher", "openmpi", "--only", "ssh-*", "--via", "ssh"}, []string{"unknown ssh-login [w3]"}, 2},
		{"turned away in a job, and mpirun goes by srun", turnedAway, true, []string{"--launcher", "openmpi", "--only", "shm-size"}, []string{}, 0},
		{"no key is taken, and mpirun in a job goes by srun", noKey, true, []string{"--launcher", "openmpi", "--only", "shm-size"}, []string{}, 0},
		{"turned away in a job, and pdsh", turnedAway, true, []string{"--only", "ssh-*"}, []string{"fail ssh-login [w3]"}, 1},
		{"in a job, and pdsh", adopts, true, nil, []string{}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, plant := range test.plant {
				plantOn(t, cluster, name, plant)
			}
			argv := slices.Concat([]string{binary(t), "-H", testhosts.HostfilePath, "--accelerator", "cpu", "--format", "json", "--skip", "launcher-*,ssh-between-nodes,torch-same,deepspeed-same"}, test.words)
			cmd := cluster.OnHead(t.Context(), argv...)
			if test.job {
				cmd = cluster.InSlurmJob(t.Context(), argv...)
			}
			report := reported(t, cmd)
			if diff := cmp.Diff(test.want, short(report.Findings)); diff != "" || report.ExitCode != test.exit {
				t.Errorf("exit code %d, want %d; findings (-want +got)\n%s", report.ExitCode, test.exit, diff)
			}
			if bad := catalogue.PartitionOf(report).Bad; test.exit != 1 && len(bad) > 0 {
				t.Errorf("bad nodes: %v", bad)
			}
		})
	}
	t.Run("a task stops", func(t *testing.T) { taskStops(t, cluster) })
}

// taskStops checks that an agent that stops during a run delays the other nodes at most by the
// agent's time limit.
func taskStops(t *testing.T, cluster *testhosts.Cluster) {
	const timeout = 6 // seconds
	stop := cluster.Nodes[2].Command(t.Context(), "sh", "-c", `until pid=$(pgrep -f "agent .*/preflight-[0-9a-f]+$"); do sleep 0.01; done; kill -STOP $pid`)
	if err := stop.Start(); err != nil {
		t.Fatal(err)
	}
	report := reported(t, cluster.InSlurmJob(t.Context(), binary(t), "-H", testhosts.HostfilePath, "--accelerator", "cpu", "--launcher", "slurm", "--via", "srun",
		"--timeout", fmt.Sprint(timeout, "s"), "--only", "ssh-reach,agent-start,shm-size,node-mesh", "--format", "json"))
	if err := stop.Wait(); err != nil {
		t.Fatalf("nothing was stopped: %v", err)
	}
	if diff := cmp.Diff([]string{"fail agent-start [w3]"}, short(report.Findings)); diff != "" {
		t.Errorf("findings (-want +got)\n%s", diff)
	}
	if report.Seconds > 2*timeout { // a busy machine needs additional time
		t.Errorf("it took %.1f s, though each node has %d", report.Seconds, timeout)
	}
	for _, node := range cluster.Nodes {
		awaitOurs(t, node, "nothing", func(listeners, agents string) bool { return listeners+agents == "" })
	}
}
