# SPDX-License-Identifier: Apache-2.0
"""The smallest training: the ranks meet over gloo and add a tensor, as many as
there are. Each then says in one line who it is and what it was given.

usage: train.py [--local_rank N] --patience SECONDS [--compile] [ANYTHING…]

What a file "expected" in the working directory holds, a line NAME=VALUE, must be
in the environment: no word of a command line gets here as surely.
"""

import argparse
import datetime
import faulthandler
import json
import os
import socket
import sys

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank")  # DeepSpeed's, not the user's
parser.add_argument("--patience", type=int)
parser.add_argument("--compile", action="store_true")
own, rest = parser.parse_known_args()
faulthandler.dump_traceback_later(1.5 * own.patience, exit=True)  # an MPI waits without end

if os.path.exists("expected"):
    with open("expected") as file:
        name, value = file.read().rstrip("\n").split("=", 1)
    if os.environ.get(name) != value:
        sys.exit(f"{name} is {os.environ.get(name)!r}, not {value!r}")

if own.compile:
    from deepspeed.ops.op_builder.cpu import CPUAdamBuilder

    CPUAdamBuilder().load()

patience = datetime.timedelta(seconds=own.patience)
if "RANK" not in os.environ:  # an MPI knows
    from deepspeed.comm.comm import mpi_discovery

    mpi_discovery()
dist.init_process_group("gloo", timeout=patience)
rank, ranks = dist.get_rank(), dist.get_world_size()
tensor = torch.full((1 << 16,), 1.0)  # fills packets
dist.all_reduce(tensor)
dist.barrier()
dist.destroy_process_group()  # else a rank may abort when a peer leaves before it
if tensor.tolist() != len(tensor) * [ranks]:
    sys.exit(f"{ranks} ranks add up to {tensor[0]}")

# One write, because ranks of a node share its output.
sys.stdout.write("trained " + json.dumps({"rank": rank, "host": socket.gethostname(), "arguments": rest}) + "\n")
