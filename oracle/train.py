# SPDX-License-Identifier: Apache-2.0
"""The smallest training: the ranks meet over gloo and add up a tensor. Each rank then
prints one line with its number, its host and its arguments.

usage: train.py [--local_rank N] --patience SECONDS [--compile] [--seconds N] [ANYTHING…]

If the working directory has a file "expected" with a line NAME=VALUE, this variable must
be in the environment. A file gets here more reliably than an argument.
"""

import argparse
import datetime
import faulthandler
import json
import os
import socket
import sys
import time

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank")  # added by DeepSpeed, not by the user
parser.add_argument("--patience", type=int)
parser.add_argument("--compile", action="store_true")
parser.add_argument("--seconds", type=float, default=0)  # how long the training lasts
own, rest = parser.parse_known_args()
faulthandler.dump_traceback_later(1.5 * own.patience, exit=True)  # MPI would wait without end

if os.path.exists("expected"):
    with open("expected") as file:
        name, value = file.read().rstrip("\n").split("=", 1)
    if os.environ.get(name) != value:
        sys.exit(f"{name} is {os.environ.get(name)!r}, not {value!r}")

if own.compile:
    from deepspeed.ops.op_builder.cpu import CPUAdamBuilder

    CPUAdamBuilder().load()

patience = datetime.timedelta(seconds=own.patience)
if "RANK" not in os.environ:  # MPI knows the rank
    from deepspeed.comm.comm import mpi_discovery

    mpi_discovery()
dist.init_process_group("gloo", timeout=patience)
rank, ranks = dist.get_rank(), dist.get_world_size()
tensor = torch.full((1 << 16,), 1.0)  # large enough to fill packets
dist.all_reduce(tensor)
time.sleep(own.seconds)
dist.barrier()
dist.destroy_process_group()  # otherwise a rank may abort when a peer ends before it
if tensor.tolist() != len(tensor) * [ranks]:
    sys.exit(f"{ranks} ranks add up to {tensor[0]}")

# A single write, because the ranks of a node share its output.
sys.stdout.write("trained " + json.dumps({"rank": rank, "host": socket.gethostname(), "arguments": rest}) + "\n")
