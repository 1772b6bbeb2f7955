# SPDX-License-Identifier: Apache-2.0
"""Lets a real torchrun read the command lines on its input, until it would start its
workers. The first line of output is torch's version.

A line is {"argv": [...], "env": {...}}, argv without the program. The answer is the
result:

    refused      argparse's error, or an exception's class and text
    parsed       the options that select hosts, program and rendezvous
"""

import contextlib
import io
import json
import logging
import os
import sys
import warnings

import torch
from torch.distributed import run
from torch.distributed.elastic.rendezvous import RendezvousParameters

answers = os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


class Launch(Exception):
    """The workers would be started now."""


class Launcher:
    def __init__(self, config, entrypoint):
        # The first thing that it makes, and refuses.
        RendezvousParameters(config.rdzv_backend, config.rdzv_endpoint, config.run_id, config.min_nodes, config.max_nodes, config.local_addr, **config.rdzv_configs)
        raise Launch(config, entrypoint)


def read(argv):
    """As run.main does, which then hands the launcher what it made of it."""
    args = run.parse_args(argv)
    try:
        run.run(args)
    except Launch as launch:
        config, _ = launch.args
    counted = args.nproc_per_node in ("auto", "gpu", "cpu", "xpu")  # and this machine's says nothing
    return {
        "nodes": [config.min_nodes, config.max_nodes], "per_node": args.nproc_per_node if counted else str(config.nproc_per_node),
        "backend": config.rdzv_backend, "endpoint": config.rdzv_endpoint, "node_rank": args.node_rank,
        "module": args.module and not args.run_path, "no_python": args.no_python and not args.run_path,
        "script": args.training_script, "arguments": args.training_script_args,
    }


def answer(case):
    os.environ.clear()
    os.environ.update(case["env"])
    complaints = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaints), contextlib.redirect_stdout(io.StringIO()):
            return {"parsed": read(case["argv"]), "refused": ""}
    except SystemExit as end:
        _, error, text = complaints.getvalue().rpartition("torchrun: error: ")
        return {"parsed": None, "refused": (error + text).removesuffix("\n") or f"exit {end.code}"}
    except Exception as problem:  # the answer is whatever ends it
        return {"parsed": None, "refused": f"{type(problem).__name__}: {problem}"}


logging.disable()
warnings.simplefilter("ignore")
run.elastic_launch = Launcher
for kind in torch.cuda, torch.xpu:
    kind.is_available, kind.device_count = lambda: True, lambda: 8
sys.argv = ["torchrun"]
print(json.dumps(torch.__version__), file=answers)
for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), file=answers)
answers.close()
