// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"
	"time"
)

// TestPeel checks that peel removes the prefixes of launchers and collectors, returns their node
// and rank, and leaves the message unchanged.
func TestPeel(t *testing.T) {
	for _, test := range []struct {
		name, text, message string
		want                speaker
	}{
		{"pdsh", "w3: RuntimeError: boom", "RuntimeError: boom", speaker{node: "w3"}},
		{"pdsh with a user", "ubuntu@w3: RuntimeError: boom", "RuntimeError: boom", speaker{node: "w3"}},
		{"pdsh, an address", "10.0.0.3: boom", "boom", speaker{node: "10.0.0.3"}},
		{"pdsh of itself", "pdsh@head: w3: ssh exited with exit code 255", "ssh exited with exit code 255", speaker{node: "w3"}},
		{"pdsh around NCCL", "10.0.0.3: w3:101:140 [7] NCCL INFO ncclInit -> 2", "NCCL INFO ncclInit -> 2", speaker{node: "w3"}},
		{"pdsh around torch", "w3: [rank5]: RuntimeError: boom", "RuntimeError: boom", speaker{node: "w3", rank: "5"}},
		{"torch without brackets", "rank5: RuntimeError: boom", "RuntimeError: boom", speaker{rank: "5"}},
		{"torch's log", "[rank5]:[E301 10:00:00.123456 ProcessGroupNCCL.cpp:616] boom", "[E301 10:00:00.123456 ProcessGroupNCCL.cpp:616] boom", speaker{rank: "5"}},
		{"Lightning", "[rank: 5] Seed set to 42", "Seed set to 42", speaker{rank: "5"}},
		{"torchrun --tee", "[default1]:boom", "boom", speaker{local: "1"}},
		{"torchrun --tee with a role", "[trainer1]:boom", "boom", speaker{local: "1"}},
		{"torchrun --tee with a template", "[trainer1|9]: boom", "boom", speaker{local: "1"}},
		{"mpirun --tag-output", "[1,3]<stderr>:boom", "boom", speaker{rank: "3"}},
		{"mpirun --tag-output, Open MPI 5", "[prterun-head-4711@1,3]<stderr>: boom", "boom", speaker{rank: "3"}},
		{"mpirun --timestamp-output", "Sun Mar  1 10:00:00 2026[1,3]<stdout>:boom", "boom", speaker{rank: "3"}},
		{"horovodrun", "[3]<stdout>:boom", "boom", speaker{rank: "3"}},
		{"SageMaker", "[1,mpirank:3,algo-2]<stderr>:boom", "boom", speaker{node: "algo-2", rank: "3"}},
		{"srun --label", "  3: boom", "boom", speaker{rank: "3"}},
		{"Ray", "(RayTrainWorker pid=12, ip=10.0.0.3) boom", "boom", speaker{node: "10.0.0.3"}},
		{"Ray, on the head", "(run.remote pid=12) boom", "boom", speaker{}},
		{"Ray's own", "(raylet, ip=10.0.0.3) boom", "boom", speaker{node: "10.0.0.3"}},
		{"docker compose", "trainer-1  | boom", "boom", speaker{node: "trainer-1"}},
		{"docker compose -t", "trainer-1  | 2026-03-01T10:00:00.123456789Z boom", "boom", speaker{node: "trainer-1"}},
		{"docker service logs", "train.2.x7kz@w3    | boom", "boom", speaker{node: "w3"}},
		{"docker logs -t", "2026-03-01T10:00:00.123456789Z boom", "boom", speaker{}},
		{"kubectl logs --prefix --timestamps", "[pod/train-worker-0/pytorch] 2026-03-01T10:00:00.123456789Z boom", "boom", speaker{node: "train-worker-0"}},
		{"journalctl", "Mar 01 10:00:00 w3 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=12", "NVRM: Xid (PCI:0000:3b:00): 79, pid=12", speaker{node: "w3"}},
		{"journalctl -o short-precise", "Mar 01 10:00:00.123456 w3 sshd[812]: boom", "boom", speaker{node: "w3"}},
		{"journalctl -o short-iso", "2026-03-01T10:00:00+0100 w3 systemd-logind[812]: boom", "boom", speaker{node: "w3"}},
		{"rsyslog, and the kernel's clock", "2026-03-01T10:00:00.123456+00:00 w3 kernel: [  812.123456] boom", "boom", speaker{node: "w3"}},
		{"an interface is no node", "Mar  1 10:00:00 w3 kernel: [  812.123456] mlx5_0: Port 1 down", "mlx5_0: Port 1 down", speaker{node: "w3"}},
		{"dmesg -T", "[Sun Mar  1 10:00:00 2026] boom", "boom", speaker{}},
		{"dmesg", "[  812.123456] boom", "boom", speaker{}},
		{"NCCL with a stamp", "[2026-03-01 10:00:00] w3:101:140 [0] misc/socket.cc:57 NCCL WARN boom", "misc/socket.cc:57 NCCL WARN boom", speaker{node: "w3"}},
		{"NCCL without a device", "w3:101:140 NCCL CALL boom", "NCCL CALL boom", speaker{node: "w3"}},
		{"Python's logging, accelerate", "2026-03-01 10:00:00,123 boom", "boom", speaker{}},
		{"DeepSpeed", "w3: [2026-03-01 10:00:00,123] [INFO] [launch.py:315:sigkill_handler] boom", "[INFO] [launch.py:315:sigkill_handler] boom", speaker{node: "w3"}},
		{"rich's clock", "[10:00:00] boom", "boom", speaker{}},
		{"a clock is no host with process and thread", "10:00:00 w3: boom", "boom", speaker{node: "w3"}},
		{"rich's frame", "│ boom", "boom", speaker{}},

		{"an exception", "RuntimeError: boom", "RuntimeError: boom", speaker{}},
		{"an exception with a digit", "ncclInvalidUsage2Error: boom", "ncclInvalidUsage2Error: boom", speaker{}},
		{"a program", "python3: can't open file 'x'", "python3: can't open file 'x'", speaker{}},
		{"a compiler", "x86_64-linux-gnu-gcc-12: error: boom", "x86_64-linux-gnu-gcc-12: error: boom", speaker{}},
		{"a library", "libcudart.so.12: cannot open shared object file", "libcudart.so.12: cannot open shared object file", speaker{}},
		{"a file and its line", "train2.py:12: UserWarning: boom", "train2.py:12: UserWarning: boom", speaker{}},
		{"a shell", "sh: 1: torchrun: not found", "sh: 1: torchrun: not found", speaker{}},
		{"ssh", "ssh: connect to host w3 port 22: Connection refused", "ssh: connect to host w3 port 22: Connection refused", speaker{}},
		{"a list", "[1,2] are the shapes", "[1,2] are the shapes", speaker{}},
		{"an error code", "[Errno 111] Connection refused", "[Errno 111] Connection refused", speaker{}},
		{"nothing", "", "", speaker{}},
	} {
		if message, who := peel(test.text); message != test.message || who != test.want {
			t.Errorf("%s: %q: got %q of %+v", test.name, test.text, message, who)
		}
		ends := make([]int, 2*mostForms)
		decorations().Ends(test.text, ends)
		for i, form := range decorations().forms {
			if at := append(form.FindStringIndex(test.text), 0, 0); at[1] != ends[i] {
				t.Errorf("%s: %q: %s ends at %d, not at %d", test.name, test.text, form, ends[i], at[1])
			}
		}
	}
}

// TestPeelHostile checks that lines with very many prefixes do not take very long.
func TestPeelHostile(t *testing.T) {
	for _, unit := range []string{"w1: ", "[rank0]: ", "[1,1]<stdout>:", "1: ", "(pid=1) ", "w1:1:1 ", "[0] ", "w1 | ", "a", "(a ", "[", "10:00:00 ", " "} {
		text := strings.Repeat(unit, longest/len(unit))
		start := worked(t)
		if message, _ := peel(text); !strings.HasSuffix(text, message) {
			t.Errorf("%q: the message is not the end of the text", unit)
		}
		if took := worked(t) - start; took > 2*time.Second {
			t.Errorf("%q: %v", unit, took)
		}
	}
}

func TestNodeOfFile(t *testing.T) {
	for name, want := range map[string]string{
		"logs/w3.log": "w3", "w3": "w3", "train-w3.out": "w3", "logs/w3.example.org.log.gz": "w3.example.org", "slurm-4711-w3.out": "w3", "10.0.0.3.err": "10.0.0.3",
		"w3/stdout": "w3", "logs/w3/train.log": "w3", "w3.stderr": "w3", "w3/nccl_trace_rank_12": "w3", "nccl_trace_rank_12": "", "rank_2.json": "", "w3/rank_2.json.gz": "w3",
		"gpu07.log": "gpu07", "node-1/train.log": "node-1", "ip-10-0-0-3.out": "ip-10-0-0-3",
		"logs/slurm-123.out": "", "results/out.txt": "", "tl/train.log": "", "training.log": "", "errors.txt": "", "run1/stdout": "", "job-17/output": "", "exp_3.log": "", "v2.1/log": "", "a b1.log": "",
		"-": "", "": "", "train.log": "", "slurm-4711.out": "", "rank_3.log": "", "attempt_0/3/stderr.log": "", "3.log": "", "log.txt": "", "/": "",
	} {
		if got := nodeOfFile(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
