// SPDX-License-Identifier: Apache-2.0

package args

import (
	"errors"
	"strings"
	"testing"

	"preflight/hostfile"
	"preflight/launch"
)

// TestParsePrograms checks which program a command starts, and with which interpreter.
func TestParsePrograms(t *testing.T) {
	for _, c := range []struct{ command, program, interpreter, script string }{
		{"deepspeed train.py", launch.ProgramDeepSpeed, "", "train.py"},
		{"/opt/venv/bin/deepspeed train.py", launch.ProgramDeepSpeed, "", "train.py"},
		{"./bin/ds train.py", launch.ProgramDeepSpeed, "", "train.py"},
		{"deepspeed.pt train.py", launch.ProgramDeepSpeed, "", "train.py"},
		{"torchrun train.py", launch.ProgramTorchrun, "", "train.py"},
		{"python -m deepspeed.launcher.runner train.py", launch.ProgramDeepSpeed, "", "train.py"},
		{"/usr/bin/python3 -m deepspeed.launcher.runner train.py", launch.ProgramDeepSpeed, "/usr/bin/python3", "train.py"},
		{"/usr/bin/python3.11 -u -W ignore -X dev -m torch.distributed.run train.py", launch.ProgramTorchrun, "/usr/bin/python3.11", "train.py"},
		{"python3 -Wignore -um torch.distributed.launch -m pkg", launch.ProgramTorchrun, "", "pkg"},
		{"python3 -mtorch.distributed.run -m pkg", launch.ProgramTorchrun, "", "pkg"},
		{"/opt/bin/python /usr/local/bin/deepspeed train.py", launch.ProgramDeepSpeed, "/opt/bin/python", "train.py"},
		{"accelerate launch --num_processes 2 train.py", launch.ProgramAccelerate, "", "train.py"},
		{"accelerate-launch --num_processes 2 train.py", launch.ProgramAccelerate, "", "train.py"},
		{"/usr/bin/python3 -m accelerate.commands.launch --num_processes 2 train.py", launch.ProgramAccelerate, "/usr/bin/python3", "train.py"},
		{"/usr/bin/python3 -m accelerate.commands.accelerate_cli launch --num_processes 2 train.py", launch.ProgramAccelerate, "/usr/bin/python3", "train.py"},
		// accelerate starts the deepspeed in PATH, whatever its own python is.
		{"/usr/bin/python3 -m accelerate.commands.launch --use_deepspeed --num_machines 2 --machine_rank 0 --num_processes 4 --deepspeed_hostfile h train.py", launch.ProgramAccelerate, "", "train.py"},
	} {
		got, err := Parse(split(t, c.command), "0.19.8", bare)
		if err != nil || got.Program != c.program || got.Interpreter != c.interpreter || got.Script != c.script || got.DeepSpeed != "0.19.8" {
			t.Errorf("%s: %s by %q runs %q, %v", c.command, got.Program, got.Interpreter, got.Script, err)
		}
	}
}

// TestParseRefusesPrograms checks the errors for commands that preflight does not support. Each
// error says what to do instead.
func TestParseRefusesPrograms(t *testing.T) {
	for _, c := range []struct{ command, want string }{
		{"", "preflight: no launch command given: begin it with "},
		{"make train", "make: preflight does not know what this starts: begin the command with "},
		{"srun deepspeed train.py", "srun: deepspeed starts the ranks of all nodes itself: leave srun out"},
		{"srun -N 2", "srun: it names no command to start"},
		{"srun -u python train.py", "srun: if srun itself starts the ranks, check them without the command: preflight --via srun --launcher slurm"},
		{"srun bash -c 'torchrun train.py'", "srun: preflight does not know what bash starts: write torchrun or accelerate launch directly behind srun's options, and variables before srun"},
		{"srun --bogus torchrun --nnodes 2 train.py", "srun: preflight does not know its option --bogus, and reads torchrun as the value"},
		{"srun -D /job torchrun train.py", "srun: write cd /job before it in place of -D"},
		{"srun torchrn train.py", `torchrn: preflight does not know what this starts: did you mean "torchrun"?`},
		{"srun torchrun --nnodes x train.py", "torchrun: "},
		{"/opt/mpi/bin/mpirun -n 4 python train.py", "mpirun: preflight does not know what this starts: begin the command with " + understood + "; or leave it out, and name the launcher and the hosts: preflight -H hostfile --launcher openmpi, or mpich, impi, mvapich, whose mpirun it is"},
		{"docker exec -i train deepspeed train.py", "docker: preflight does not know what this starts: begin the command with the program that runs in the container, and name the container with --in: preflight --in 'docker exec …' -- deepspeed …"},
		{"'deepspeed --hostfile h /job/train.py'", `deepspeed: the whole command is one word, "deepspeed --hostfile h /job/train.py", and no program has that name: remove the quotes`},
		{"'A=1 /opt/bin/torchrun train.py'", `torchrun: the whole command is one word, "A=1 /opt/bin/torchrun train.py", and no program has that name: remove the quotes`},
		{"'/opt/my env/bin/depspeed' train.py", `depspeed: preflight does not know what this starts: did you mean "deepspeed"?`},
		{"depspeed train.py", `depspeed: preflight does not know what this starts: did you mean "deepspeed"?`},
		{"ray job submit --working-dir . -- torchrun train.py", "ray: it starts no ranks itself"},
		{"env -i A=b deepspeed train.py", "env: preflight knows none of its options: write NAME=value"},
		{"python train.py", "python: train.py would be one process that connects to no other: start it with "},
		{"python -m pkg.train", "python: -m pkg.train would be one process that connects to no other: start it with "},
		{"python -m deepspeed train.py", "python: -m deepspeed runs nothing: write -m deepspeed.launcher.runner"},
		{"python3 -u", "python3: names no script and no module to run"},
		{"python3 -c 'import deepspeed' -m deepspeed.launcher.runner", "python3: names no script and no module to run"},
		{"accelerate config", "accelerate: only accelerate launch starts a training"},
	} {
		_, err := Parse(split(t, c.command), "", bare)
		if _, isUsage := errors.AsType[*launch.UsageError](err); !isUsage || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v", c.command, err)
		}
	}
}

// TestRanksPython checks torchrun's PYTHON_EXEC.
func TestRanksPython(t *testing.T) {
	for value, want := range map[string]string{"": "/usr/bin/python3", "/e/python": "/e/python", "python3.12": "/usr/bin/python3"} {
		got, err := Parse(split(t, "/usr/bin/python3 -m torch.distributed.run train.py"), "", surroundings(map[string]string{"PYTHON_EXEC": value}, nil))
		if err != nil || got.Interpreter != want {
			t.Errorf("PYTHON_EXEC=%s: %q, %v", value, got.Interpreter, err)
		}
	}
}

// TestHostfileOf: HostfileOf needs no release, and accepts options that only some releases have.
func TestHostfileOf(t *testing.T) {
	for line, want := range map[string]string{
		"deepspeed train.py": hostfile.DefaultPath,
		"deepspeed --hostfile conf/hosts train.py --hostfile other":           "conf/hosts",
		"python -m deepspeed.launcher.runner -H=conf/hosts train.py":          "conf/hosts",
		"deepspeed --elastic_training -H conf/hosts train.py":                 "conf/hosts", // releases before 0.19.8 have the option
		"deepspeed --venv_script v --min_elastic_nodes 1 --hostf h train.py":  "h",
		"torchrun --nnodes 2 --rdzv-backend c10d --rdzv-endpoint w1 train.py": "",
	} {
		got, err := HostfileOf(strings.Fields(line), Surroundings{Getenv: func(string) string { return "" }})
		if err != nil || got != want {
			t.Errorf("%s: %q (%v), want %q", line, got, err, want)
		}
	}
	// --s abbreviates --save_pid until 0.10.2. Later it may also abbreviate --ssh_port.
	if got, err := HostfileOf(strings.Fields("deepspeed --s --hostfile h train.py"), Surroundings{}); err == nil {
		t.Errorf("an option that may be two is taken: %q", got)
	}
}

// TestRefused: Refused reports errors before the hosts are known, and no error for torchrun.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		command, release string
		refused          bool
	}{
		{"deepspeed --elastic_training train.py", "0.19.7", true},
		{"deepspeed --elastic_training --master_addr h train.py", "0.19.7", false},
		{"deepspeed train.py it's", "0.10.1", true},
		{"deepspeed train.py it's", "0.12.5", false},
		{"torchrun train.py it's", "0.10.1", false},
		{"torchrun --nnodes 2 --rdzv-backend etcd train.py it's", "0.10.1", false},
		{"accelerate launch --use_deepspeed --num_machines 2 --machine_rank 0 --num_processes 4 --deepspeed_hostfile h train.py it's", "0.10.1", true},
		{"accelerate launch --multi_gpu --num_processes 4 train.py it's", "0.10.1", false},
	} {
		typed, err := Parse(strings.Fields(c.command), c.release, bare)
		if err != nil {
			t.Fatal(err)
		}
		if err := typed.Refused(); (err != nil) != c.refused {
			t.Errorf("%s, %s: %v", c.release, c.command, err)
		}
	}
}

// TestOptionAfterScript checks the note about options that reach the script and not the launcher.
func TestOptionAfterScript(t *testing.T) {
	for command, want := range map[string]string{
		"deepspeed train.py --hostfile hosts":                     "options after the script do not reach deepspeed: --hostfile",
		"torchrun train.py --nnodes=2 --nproc_per_node 8":         "options after the script do not reach torchrun: --nnodes, --nproc_per_node",
		"torchrun --nnodes 2 --node_rank 0 train.py --nodes 2":    "",
		"deepspeed --hostfile h train.py --num_gpus 2":            "",
		"torchrun --nnodes 2 --node_rank 0 train.py --standalone": "options after the script do not reach torchrun: --standalone",
	} {
		typed, err := Parse(strings.Fields(command), "", bare)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, note := range typed.Notes {
			if note.ID == "option-after-script" {
				got = note.Message
			}
		}
		if !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}
