# SPDX-License-Identifier: Apache-2.0
"""One rank of a training on one GPU: NCCL's all-reduce with itself.

With --hold, it takes a gigabyte of the GPU until its standard input ends."""

import sys
import time

began = time.time()
import torch

if "--hold" in sys.argv:
    block = torch.ones(1 << 28, device="cuda")
    print("holding", flush=True)
    sys.stdin.read()
    sys.exit()

import torch.distributed as dist

torch.cuda.set_device(0)
dist.init_process_group("nccl")
numbers = torch.full((1 << 20,), dist.get_rank() + 1.0, device="cuda")
dist.all_reduce(numbers)
torch.cuda.synchronize()
ranks = dist.get_world_size()
assert bool((numbers == ranks * (ranks + 1) / 2).all()), "the sum is wrong"
release = ".".join(map(str, torch.cuda.nccl.version()))
print(f"rank {dist.get_rank()} of {ranks}: NCCL {release}, torch {torch.__version__}, {time.time() - began:.1f} s", flush=True)
dist.destroy_process_group()
