# SPDX-License-Identifier: Apache-2.0
"""Executes the orders on its input, one line of JSON each, with a real torch, and prints one answer per line.

A line is {"do": name, ...}; the answer is {"said": ...} or {"error": "..."}.
"""

import datetime
import json
import os
import sys

import torch
import torch.distributed as dist

store = None  # the store that was served or connected to last


def seconds(number):
    return datetime.timedelta(seconds=number)


def tcp_store(order, serve):
    options = {"is_master": serve, "wait_for_workers": False, "timeout": seconds(order.get("seconds", 20))}
    if "use_libuv" in (dist.TCPStore.__init__.__doc__ or ""):
        options["use_libuv"] = order.get("libuv", False)
    return dist.TCPStore(order.get("host", "127.0.0.1"), order["port"], order.get("world"), **options)


def serve(order):
    global store
    store = tcp_store(order, True)
    return store.port


def dial(order):
    global store
    store = None
    store = tcp_store(order, False)
    return None


def stop(order):
    global store
    store = None


def init(order):
    """A whole job: meet, add up the ranks, leave."""
    os.environ.update(
        RANK=str(order["rank"]), WORLD_SIZE=str(order["world"]), MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(order["port"]), GLOO_SOCKET_IFNAME="lo", USE_LIBUV=str(int(order.get("libuv", False))),
        # If the store belongs to torchrun's agent, every rank is a client.
        TORCHELASTIC_USE_AGENT_STORE=str(order.get("served", False)), TORCHELASTIC_RESTART_COUNT="0",
    )
    dist.init_process_group("gloo", timeout=seconds(order.get("seconds", 60)))
    ranks = torch.tensor([order["rank"]])
    dist.all_reduce(ranks)
    dist.destroy_process_group()
    return int(ranks)


def text(value):
    return value.decode("latin-1")


ORDERS = {
    "version": lambda order: torch.__version__,
    "serve": serve,
    "dial": dial,
    "stop": stop,
    "init": init,
    "set": lambda order: store.set(order["key"], order["value"]),
    "get": lambda order: text(store.get(order["key"])),
    "add": lambda order: store.add(order["key"], order["delta"]),
    "check": lambda order: store.check(order["keys"]),
    "wait": lambda order: store.wait(order["keys"], seconds(order["seconds"])),
    "num_keys": lambda order: store.num_keys(),
}

for line in sys.stdin:
    order = json.loads(line)
    try:
        answer = {"said": ORDERS[order["do"]](order)}
    except Exception as problem:  # the answer is whatever torch raises
        answer = {"error": f"{type(problem).__name__}: {problem}"}
    print(json.dumps(answer), flush=True)
