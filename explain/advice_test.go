// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"
)

// TestAdvice checks that the fixes for a message belong to the program that printed it, and not to
// another program.
func TestAdvice(t *testing.T) {
	for _, one := range []struct{ log, cause, has, hasNot string }{
		{"Warning  FailedScheduling  12m (x5 over 30m)  default-scheduler  0/16 nodes are available: 10 Insufficient nvidia.com/gpu, 6 node(s) had untolerated taint {dedicated: infra}.\n", "batch-request", "kubectl", "nvidia-ctk"},
		{"0/16 nodes are available: 2 Insufficient cpu, 16 Insufficient memory.\n", "batch-request", "kubectl", "scontrol"},
		{"w3: bash: line 1: orted: command not found\n", "python-missing", "mpirun --prefix", "pip"},
		{"[mpiexec@w1] HYDU_create_process (utils/launch/launch.c:74): execvp error on file hydra_pmi_proxy (No such file or directory)\n", "python-missing", "mpirun --prefix", "pip"},
		{"RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 3; 60.96 GiB total capacity)\n", "out-of-memory", "npu-smi", "nvidia"},
		{"EI0007: Failed to allocate resource[DeviceMemory] with info [size:209715200]. Reason: Memory resources are exhausted.\n", "out-of-memory", "npu-smi", "nvidia"},
		{"EI0006: Getting socket times out. Reason: Remote Rank did not send the data in time.\n", "collective-timeout", "preflight explain LOG_OF_EVERY_NODE", "who died first stands"},
		{"DEADLINE_EXCEEDED: Barrier timed out. Id: PjRT_Client_Connect::0. This usually happens\n", "rendezvous-timeout", "jax.distributed", "torchrun"},
		{"srun: error: Node failure on cn055\n", "peer-exited", "scontrol show node cn055", "LOG_OF_EVERY_NODE"},
		{"srun: error: Node failure on cn055\n", "peer-exited", "ssh cn055", "NODE"},
	} {
		r := signatures(t).Explain([]Source{read("log", one.log)})
		if short(r.Causes) != one.cause {
			t.Errorf("%q: %s", one.log, short(r.Causes))
			continue
		}
		fix := strings.Join(r.Causes[0].Fix, "\n")
		if !strings.Contains(fix, one.has) || strings.Contains(fix, one.hasNot) {
			t.Errorf("%q: %s", one.log, fix)
		}
	}
}

// TestLateTask checks that explain reads the tasks that a barrier waited for. XLA names these tasks
// in the lines below the barrier.
func TestLateTask(t *testing.T) {
	const log = "DEADLINE_EXCEEDED: Barrier timed out. Id: %s::0. This usually happens because a task triggered the barrier too early or too slowly.\n" +
		"# of tasks that reached the barrier: 3/4.\nThe first task at the barrier: /job:jax_worker/replica:0/task:0. Some timed out task names:\n/job:jax_worker/replica:0/task:2\n\n"
	for barrier, cause := range map[string]string{"PjRT_Client_Connect": "rendezvous-timeout", "sync_hosts": "peer-exited"} {
		r := signatures(t).Explain([]Source{read("log", strings.Replace(log, "%s", barrier, 1))})
		if got := r.Causes[0]; got.Cause != cause || !strings.Contains(got.Summary, "/job:jax_worker/replica:0/task:2") {
			t.Errorf("%s: %s: %s", barrier, got.Cause, got.Summary)
		}
	}
}
