# SPDX-License-Identifier: Apache-2.0
"""A small training: the ranks meet over gloo and add up their numbers."""

import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo", init_method="env://")
total = torch.tensor([float(dist.get_rank())])
dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} on {os.uname().nodename}: {int(total.item())}", flush=True)
dist.destroy_process_group()
