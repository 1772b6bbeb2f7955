# SPDX-License-Identifier: Apache-2.0
"""Lets a libnccl, the argument, choose the interface of its bootstrap, once for every
line of JSON on its input, which is the environment: ["NAME=value", ...]. The first
line of output is NCCL's version, the others are its output.
"""

import ctypes
import json
import os
import sys


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


libc = ctypes.CDLL(None)
nccl = ctypes.CDLL(sys.argv[1])


def version():
    number = ctypes.c_int()
    nccl.ncclGetVersion(ctypes.byref(number))
    return f"{number.value // 10000}.{number.value // 100 % 100}.{number.value % 100}"


def choose(settings):
    """Runs in a new process each time, because NCCL chooses only once per process."""
    environment = dict(setting.split("=", 1) for setting in settings)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writer, 1)
        os.environ.clear()
        os.environ.update(environment, NCCL_DEBUG="INFO")
        nccl.ncclGetUniqueId(ctypes.byref(UniqueId()))
        libc.fflush(None)
        os._exit(0)
    os.close(writer)
    with open(reader) as output:
        printed = output.read()
    os.waitpid(child, 0)
    return printed


print(json.dumps(version()), flush=True)
for line in sys.stdin:
    print(json.dumps(choose(json.loads(line))), flush=True)
