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

// TestNames checks that a headline and the commands name what the log names: the module, the
// variable of the program that speaks, and no port, host or program of another kind of launch.
func TestNames(t *testing.T) {
	for _, one := range []struct{ log, cause, has, hasNot string }{
		{"w4: ModuleNotFoundError: No module named 'extra_ops'\n", "python-missing", "the module extra_ops", "a program or module"},
		{"RuntimeError: [enforce fail at device.cc:83] ifa != nullptr. Unable to find address for: ib0\n", "socket-ifname-missing", "unset GLOO_SOCKET_IFNAME", "unset NCCL"},
		{"RuntimeError: [unbound_buffer.cc:129] Timed out waiting 17000ms for recv operation to complete\n", "collective-timeout", "preflight hang", "TORCH_NCCL"},
		{"[W socket.cpp:426] [c10d] The server socket has failed to bind to ?UNKNOWN? (errno: 98 - Address already in use).\n", "master-port-in-use", "MASTER_PORT", "29500"},
		{"RuntimeError: connect() timed out.\n", "master-unreachable", "MASTER_PORT", "29500"},
		{"[rank2]: hi, step=1\n[rank0]: RuntimeError: [unbound_buffer.cc:129] Timed out waiting 17000ms for recv operation to complete\n[rank2]: RuntimeError: [unbound_buffer.cc:129] Timed out waiting 17000ms for recv operation to complete\n", "collective-timeout", "because rank 1 did not take part", "TORCH_NCCL"},
		{"slurmstepd: error: pyxis: failed to import docker image\n", "image-missing", "enroot import", "docker login"},
		{"trainer-0   0/1     ImagePullBackOff   0   3m\n", "image-missing", "kubectl describe", "docker pull"},
		{"[W socket.cpp:663] [c10d] The client socket has failed to connect to [xxx.xx.xx.xx]:29500 (errno: 113 - No route to host).\n", "no-route-to-host", "ping -c 1 ADDRESS", "ping -c 1 xxx.xx"},
		{"w1: NODE_RANK=0\nw1: [W socket.cpp:663] [c10d] The client socket has failed to connect to [10.9.9.9]:29511 (errno: 113 - No route to host).\n", "master-addr-wrong", "--master_addr 10.9.9.9 --master_port 29511", "firewall"},
		{"w1: NODE_RANK=0\nw2: [W socket.cpp:663] [c10d] The client socket has failed to connect to [10.9.9.9]:29511 (errno: 113 - No route to host).\n", "no-route-to-host", "firewall", "--master_addr"},
		{"train.py: error: unrecognized arguments: --local_rank=0\n", "argument-refused", "--local-rank", "docker"},
		{"huggingface_hub.errors.LocalEntryNotFoundError: An error happened\n", "hub-unreachable", "--only hub-reach,model-cached", "29500"},
		{"w3: 已杀死\n", "host-oom-killed", "killed from outside", "the OOM killer"},
		{"terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  [enforce fail at pair.cc:510] op.preamble.length <= op.nbytes. 8 vs 4\n", "collective-desync", "got 8 bytes and expected 4", "NCCL"},
		{"  Communicator ranks have different AllReduce operation counts\n", "collective-timeout", "preflight hang", "docker"},
		{"  Process 3711 on node 10.0.0.2 managing GPU 3\n", "peer-exited", "some ranks of 10.0.0.2", "docker"},
		{"Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause.\nConnectionError: ray client connection timeout\n", "master-unreachable", "Ray's head", "etcd"},
		{"n1:42 NCCL DIAG [INFO] p2p: write mismatch srcRank=0 srcCudaDev=0 srcNvmlDev=0 dstRank=1 dstCudaDev=1\nRuntimeError: NCCL operation timed out\n", "gpu-p2p-broken", "rank 1 directly", "docker"},
	} {
		r := signatures(t).Explain([]Source{read("log", one.log)})
		if !strings.Contains(short(r.Causes), one.cause) {
			t.Errorf("%q: %s, want %s", one.log, short(r.Causes), one.cause)
			continue
		}
		f := r.Causes[0]
		text := strings.Join(append(f.Fix, f.Title, f.Summary, f.Command), "\n")
		if !strings.Contains(text, one.has) || strings.Contains(text, one.hasNot) {
			t.Errorf("%q: %s", one.log, text)
		}
	}
}
