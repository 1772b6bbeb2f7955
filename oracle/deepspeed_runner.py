# SPDX-License-Identifier: Apache-2.0
"""Runs DeepSpeed's own runner for every line of JSON on its input, until it would
start a program. The argument is a directory: below it, `home` is the home directory
and `work` the working directory of every launch. The first line of output is
DeepSpeed's version.

A line is a launch:

    argv         the arguments after `deepspeed`
    env          the whole environment
    files        texts in base64 by their path below the directory
    python       the interpreter that runs deepspeed
    accelerator  cuda or cpu
    devices      the number of accelerators

The answer is the result of the launch:

    parsed       the options by name, null when the command line was refused
    refused      argparse's error, or an exception's class and text
    hosts        the hosts that take part, [name, [slot, ...]] in rank order
    command      the command that it would start; empty for the autotuner
    changed      the variables that it adds to the environment for this
"""

import base64
import contextlib
import importlib
import io
import json
import os
import shutil
import subprocess
import sys
import warnings

# Keep all other output out of the answers.
answers = os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

import deepspeed
from deepspeed.launcher import runner

CODE = runner.__loader__.get_code(runner.__name__)
FIRST_HOST = b"10.9.8.7 172.17.0.1 fd00::7\n"  # what its `hostname -I` prints


class Started:
    """A program that DeepSpeed starts. It ends with 0 at once."""

    returncode = 0
    latest = None

    def __init__(self, command, env=None, **_):
        Started.latest = {"command": command, "env": env}

    def wait(self):
        return 0


def output(command, **_):
    return b"MVAPICH2-GDR 2.3.7" if "mpiname" in command else FIRST_HOST


subprocess.Popen = Started
subprocess.check_call = lambda *_, **__: 0
subprocess.check_output = output
shutil.which = lambda name, *_, **__: "/usr/bin/" + name


def pretend(name, count):
    """Makes DeepSpeed find this many devices of this kind, and no others."""
    if not hasattr(runner, "get_accelerator"):  # before 0.8 it knew CUDA only
        runner.torch.cuda.device_count = lambda: count
        return
    kind = getattr(importlib.import_module(f"deepspeed.accelerator.{name}_accelerator"), f"{name.upper()}_Accelerator")
    kind.device_count = lambda self: count
    importlib.import_module("deepspeed.accelerator").set_accelerator(kind())


def plant(root, files):
    for directory in "home", "work":
        shutil.rmtree(os.path.join(root, directory), ignore_errors=True)
        os.mkdir(os.path.join(root, directory))
    os.chdir(os.path.join(root, "work"))
    for path, text in files.items():
        path = os.path.join(root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(text))


def launch(case):
    answer = {"parsed": None, "refused": "", "hosts": [], "command": [], "changed": {}}
    complaints = io.StringIO()
    # The runner reads much of the environment when it is imported.
    exec(CODE, vars(runner))
    pretend(case["accelerator"], case["devices"])
    real_parse_args, real_encode_world_info = runner.parse_args, runner.encode_world_info

    def parse_args(args=None):
        parsed = real_parse_args(args)
        answer["parsed"] = dict(vars(parsed))  # a copy, because main changes them
        return parsed

    def encode_world_info(active):
        answer["hosts"] = list(active.items())
        return real_encode_world_info(active)

    def run_autotuning(_, active):
        answer["hosts"] = list(active.items())

    runner.parse_args, runner.encode_world_info, runner.run_autotuning = parse_args, encode_world_info, run_autotuning
    Started.latest = None
    try:
        with contextlib.redirect_stderr(complaints), contextlib.redirect_stdout(io.StringIO()):
            runner.main(case["argv"])
    except SystemExit as end:
        _, error, text = complaints.getvalue().rpartition("deepspeed: error: ")
        answer["refused"] = (error + text).removesuffix("\n") or f"exit {end.code}"
    except Exception as problem:  # the answer is whatever ends the launch
        answer["refused"] = f"{type(problem).__name__}: {problem}"
    if Started.latest is not None:
        answer["command"] = ["$PID" if word == str(os.getpid()) else word for word in Started.latest["command"]]
        answer["changed"] = {name: value for name, value in Started.latest["env"].items() if case["env"].get(name) != value}
    return answer


warnings.simplefilter("ignore")
root = os.path.realpath(sys.argv[1])
real_environment = dict(os.environ)
print(json.dumps(deepspeed.__version__.strip()), file=answers)
for line in sys.stdin:
    case = json.loads(line)
    plant(root, case["files"])
    # The answers keep this order. The order in a shell has no meaning.
    os.environ.clear()
    os.environ.update(sorted(case["env"].items()))
    sys.argv, sys.executable = ["deepspeed"], case["python"]
    print(json.dumps(launch(case)), file=answers)
answers.close()
os._exit(0)  # skip what DeepSpeed does at its end, because it needs real programs
