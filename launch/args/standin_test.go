// SPDX-License-Identifier: Apache-2.0

package args

import (
	"io/fs"
	"strings"
	"testing"
)

// TestStandIn checks that only the word of the script is replaced, on the second node and with a
// time limit of 40 s.
func TestStandIn(t *testing.T) {
	const bounds = "--max_restarts 0 --rdzv_conf timeout=20 "
	for typed, want := range map[string]string{
		"deepspeed --hostfile h train.py --lr 1":                              "deepspeed --hostfile h X --lr 1",
		"deepspeed --module pkg.train a":                                      "deepspeed X a",
		"deepspeed --mod pkg.train a":                                         "deepspeed X a",
		"deepspeed --no_python --no_local_rank python -u train.py a":          "deepspeed --no_python --no_local_rank python -u X a",
		"deepspeed --no_ssh --node_rank 0 --master_addr w1 train.py":          "deepspeed --no_ssh --node_rank 0 --master_addr w1 --node_rank 1 X",
		"python -m deepspeed.launcher.runner train.py train.py":               "python -m deepspeed.launcher.runner X train.py",
		"torchrun --nnodes 2 --node_rank 0 train.py":                          "torchrun --nnodes 2 --node_rank 0 " + bounds + "--node_rank 1 X",
		"torchrun --nnodes 2 --node_rank 0 -m pkg.train":                      "torchrun --nnodes 2 --node_rank 0 " + bounds + "--node_rank 1 X",
		"torchrun --nnodes 2 --rdzv-conf timeout=9 --node_rank 0 train.py":    "torchrun --nnodes 2 --rdzv-conf timeout=9 --node_rank 0 --max_restarts 0 --node_rank 1 X",
		"torchrun --nnodes 2 --rdzv_backend c10d --rdzv_endpoint w1 train.py": "torchrun --nnodes 2 --rdzv_backend c10d --rdzv_endpoint w1 --max_restarts 0 --rdzv_conf read_timeout=10,join_timeout=20 X",
		"torchrun --nnodes 2 --node_rank 0 --no-python python -m pkg.train a": "torchrun --nnodes 2 --node_rank 0 --no-python " + bounds + "--node_rank 1 python X a",
		"accelerate launch --multi_gpu --num_machines 2 --num_processes 2 --machine_rank 0 --main_process_ip w1 --main_process_port 1 train.py":                        "accelerate launch --multi_gpu --num_machines 2 --num_processes 2 --machine_rank 0 --main_process_ip w1 --main_process_port 1 " + bounds + "--machine_rank 1 X",
		"accelerate launch --use_deepspeed --deepspeed_hostfile h --num_machines 2 --num_processes 2 --machine_rank 0 --main_process_ip w1 --main_process_port 1 t.py": "accelerate launch --use_deepspeed --deepspeed_hostfile h --num_machines 2 --num_processes 2 --machine_rank 0 --main_process_ip w1 --main_process_port 1 X",
		"srun -lN 2 torchrun --nnodes 2 --rdzv_backend c10d --rdzv_endpoint w1 -m pkg.train a":                                                                         "srun -lN 2 torchrun --nnodes 2 --rdzv_backend c10d --rdzv_endpoint w1 --max_restarts 0 --rdzv_conf read_timeout=10,join_timeout=20 X a",
		"srun torchrun --nnodes 2 --node_rank 0 train.py":                                                                                                              "srun torchrun --nnodes 2 --node_rank 0 " + bounds + "X",
		"deepspeed --no_python ./wrap.sh train.py":                                                                                                                     "refused: ./wrap.sh is a program and not a Python script: start the script itself",
	} {
		in := StandIn(strings.Fields(typed), "0.19.8", Surroundings{
			Getenv:   func(string) string { return "" },
			ReadFile: func(string) ([]byte, error) { return nil, fs.ErrNotExist },
		})
		got := "refused: " + in.Refused
		if in.Refused == "" {
			got = strings.Join(in.On(1, "X", 40), " ")
		}
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", typed, got, want)
		}
	}
}
