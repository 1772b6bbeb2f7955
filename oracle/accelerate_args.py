# SPDX-License-Identifier: Apache-2.0
"""Runs a real accelerate launch for every line on its input, until it would start a
program or become torchrun. The argument is the directory in which every launch runs.
The first line of output is accelerate's version.

A line is {"argv": [...], "config": "..."}: the arguments after `accelerate launch`,
and the text of the file config.yaml, "" for none. The answer is the result:

    refused      argparse's error, or an exception's class and text
    command      the program that it would start
    torchrun     the options that it passes to torch.distributed.run, if that
                 accepts the number of processes
"""

import contextlib
import io
import json
import logging
import os
import sys
import warnings

root = os.path.realpath(sys.argv[1])
os.environ["HF_HOME"] = root  # a directory without a configuration of accelerate

import accelerate
import torch
from accelerate.commands import launch
from accelerate.utils import launch as preparation
from torch.distributed import run
from torch.distributed.elastic.agent.server.api import WorkerSpec

answers = os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


class Launch(Exception):
    """Ends accelerate when it would start a program."""


class Start:
    def __init__(self, command, **_):
        raise Launch({"command": command})


def become_torchrun(args):
    text = {name: str(getattr(args, name)) for name in ("nnodes", "nproc_per_node", "rdzv_backend", "rdzv_endpoint", "node_rank", "master_addr", "master_port")}
    flags = {name: bool(getattr(args, name)) for name in ("module", "no_python")}
    if text["nproc_per_node"].lstrip("-").isdigit():
        WorkerSpec("", int(text["nproc_per_node"]), None, entrypoint="any")  # refuses fewer than one
    raise Launch({"torchrun": {**text, **flags, "script": args.training_script, "arguments": args.training_script_args}})


def answer(case):
    for path in "config.yaml", ".deepspeed_env":
        if os.path.exists(path):
            os.remove(path)
    if case["config"]:
        with open("config.yaml", "w") as config:
            config.write(case["config"])
    complaints = io.StringIO()
    sys.argv = ["accelerate-launch", *case["argv"]]  # its parser reads this too
    try:
        with contextlib.redirect_stderr(complaints), contextlib.redirect_stdout(io.StringIO()):
            launch.main()
    except Launch as what:
        return what.args[0]
    except SystemExit as end:
        _, error, text = complaints.getvalue().rpartition("Accelerate launch command: error: ")
        return {"refused": (error + text).removesuffix("\n") or f"exit {end.code}"}
    except Exception as problem:  # the answer is whatever ends it
        return {"refused": f"{type(problem).__name__}: {problem}".removesuffix(": ")}
    return {"refused": "nothing happened"}


logging.disable()
warnings.simplefilter("ignore")
os.chdir(root)
launch.subprocess.Popen, run.run = Start, become_torchrun
launch.check_cuda_p2p_ib_support = lambda: True
preparation.is_port_in_use = lambda _: False
torch.cuda.is_available, torch.cuda.device_count = lambda: True, lambda: 8
print(json.dumps(accelerate.__version__), file=answers)
for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), file=answers)
answers.close()
