# SPDX-License-Identifier: Apache-2.0
"""One rank of preflight's smoke test, with the torch that training will import.

usage: PYTHON -B -c THIS ACCELERATOR

Orders come as lines of JSON on standard input, words go out as lines of JSON on standard
output; smoke.go describes them. It must run wherever training does: Python 3.6, torch 1.9.
"""

import datetime
import importlib
import importlib.util
import json
import os
import sys
import time

# Libraries may print and read anything; keep that out of the conversation.
words = os.fdopen(os.dup(1), "w")
words.write("\n")  # earlier output may lack a newline
os.dup2(2, 1)
orders = os.fdopen(os.dup(0), "r")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)

call = ""


def say(**word):
    words.write(json.dumps(word) + "\n")
    words.flush()


def at(what):
    global call
    call = what
    say(at=what)


class Wrong(Exception):
    """A wrong result."""

    def __init__(self, tensor, wrong, want):
        super().__init__()
        indices = wrong.reshape(-1).nonzero()
        self.element = int(indices[0])
        self.got = float(tensor.reshape(-1)[self.element])
        self.want = float(want.reshape(-1)[self.element]) if hasattr(want, "reshape") else float(want)
        self.message = "element %d is %s, not %s; %d of %d are wrong" % (
            self.element, number(self.got), number(self.want), len(indices), wrong.numel())


class Absent(Exception):
    """Something that is needed is missing."""


def number(value):
    return str(int(value)) if value == value and abs(value) < 2**53 and value == int(value) else str(value)


def verify(tensor, want):
    """Verifies every element; a NaN is unequal to anything."""
    wrong = tensor != want
    if bool(wrong.any()):
        raise Wrong(tensor, wrong, want)


# Accelerators other than CUDA: torch's name, the plugins to import if installed, and the backend.
# XPU has its own backend in torch from 2.8 on.
OTHERS = (
    ("npu", ("torch_npu",), "hccl"),
    ("hpu", ("habana_frameworks.torch.core", "habana_frameworks.torch.distributed.hccl"), "hccl"),
    ("xpu", ("intel_extension_for_pytorch", "oneccl_bindings_for_pytorch"), "ccl"),
)


def find_accelerator():
    """Its name, module and backend."""
    if torch.version.cuda or getattr(torch.version, "hip", None):
        return "cuda", torch.cuda, "nccl"
    for kind, plugins, backend in OTHERS:
        for plugin in plugins:
            if importlib.util.find_spec(plugin.split(".")[0]):
                at("import " + plugin)
                importlib.import_module(plugin)
        module = getattr(torch, kind, None)
        if module is not None and module.is_available():
            own = kind == "xpu" and getattr(dist, "is_xccl_available", bool)()
            return kind, module, "xccl" if own else backend
    raise Absent("torch %s supports no accelerator: it was built for the CPU only" % torch.__version__)


def load():
    global torch, dist, device, backend, accelerator
    at("import torch")
    import torch
    import torch.distributed as dist

    if not dist.is_available():
        raise Absent("torch %s was built without torch.distributed" % torch.__version__)
    if sys.argv[1] == "cpu":
        device, backend, accelerator = torch.device("cpu"), "gloo", None
        return {"backend": backend, "name": "CPU"}
    kind, accelerator, backend = find_accelerator()
    local = int(os.environ["LOCAL_RANK"])
    at("torch.%s.set_device(%d)" % (kind, local))
    accelerator.set_device(local)
    device = torch.device(kind, local)
    at("torch.zeros(1, device=%s:%d)" % (kind, local))
    torch.zeros(1, device=device)
    synchronize()
    about = accelerator.get_device_properties(local) if hasattr(accelerator, "get_device_properties") else None
    done = {"backend": backend, "name": str(getattr(about, "name", kind))}
    if hasattr(about, "pci_bus_id") and hasattr(about, "pci_domain_id"):
        done["address"] = "%04x:%02x:%02x.0" % (about.pci_domain_id, about.pci_bus_id, about.pci_device_id)
    return done


def synchronize():
    if accelerator:
        accelerator.synchronize()


TILE = 64


def tile(seed):
    """Small integers without a pattern that a product would cancel."""
    return [[(i * i + seed * k + i * k) % 5 - 2 for k in range(TILE)] for i in range(TILE)]


class Product:
    """Two matrices of a tile repeated, so that their product is that of the tile times a power
    of two, known from plain integers. An element is at most 4 * TILE times that power, and so has
    eight significant bits: bfloat16 holds it exactly, as float32 does any sum on the way to it.
    """

    def __init__(self, size, dtype):
        a, b = tile(3), tile(7)
        columns = list(zip(*b))
        c = [[size // TILE * sum(x * y for x, y in zip(row, column)) for column in columns] for row in a]
        self.size = size
        self.a, self.b, self.want = (
            torch.tensor(t, dtype=dtype).to(device).repeat(size // TILE, size // TILE) for t in (a, b, c))
        self.result = torch.empty_like(self.want)

    def compute(self):
        """Returns how long it took, in seconds."""
        self.result.zero_()
        synchronize()
        begun = time.perf_counter()
        torch.matmul(self.a, self.b, out=self.result)
        synchronize()
        took = time.perf_counter() - begun
        verify(self.result, self.want)
        return took


def kind_of_load():
    """The size and type of the matrices. GPUs before compute capability 8.0 use float16 instead
    of bfloat16."""
    if not accelerator:
        return 512, torch.float32  # half a second in a library without an optimised kernel
    for name in ("bf16", "fp16"):
        # Otherwise intermediate sums would be rounded to less than float32.
        setattr(torch.backends.cuda.matmul, "allow_%s_reduced_precision_reduction" % name, False)
    old = device.type == "cuda" and torch.cuda.get_device_capability(device)[0] < 8
    return 8192, torch.float16 if old else torch.bfloat16


def compute(order):
    at("torch.sum")
    count = 1 << 20
    total = torch.arange(count, dtype=torch.int32, device=device).sum().reshape(1)
    verify(total, count * (count - 1) // 2)
    at("torch.matmul")
    product = Product(*kind_of_load())
    product.compute()  # libraries choose their kernels on the first call
    took, times, begun = 0.0, 0, time.monotonic()
    while not times or time.monotonic() - begun < order["seconds"]:
        took += product.compute()
        times += 1
    done = {"rate": 2.0 * product.size**3 * times / took}
    if accelerator:
        done.update(copies())
    return done


COPIED = 64 << 20


def copies():
    """Bits per second between the host and the device, and within the device."""
    at("torch.Tensor.pin_memory")
    pattern = torch.arange(COPIED // 4, dtype=torch.int32)
    back = torch.empty_like(pattern)
    if device.type == "cuda":
        pattern, back = pattern.pin_memory(), back.pin_memory()
    there, beside = (torch.zeros(COPIED // 4, dtype=torch.int32, device=device) for _ in range(2))
    done = {}
    for name, to, source in (
        ("host_to_device", there, pattern), ("device_to_device", beside, there), ("device_to_host", back, beside)):
        at("torch.Tensor.copy_ (%s)" % name.replace("_", " "))
        to.copy_(source)
        synchronize()
        begun, times, took = time.perf_counter(), 0, 0.0
        while took < 0.2:
            to.copy_(source)
            synchronize()
            times += 1
            took = time.perf_counter() - begun
        done[name] = 8.0 * COPIED * times / took
    verify(back, pattern)
    return done


store, meeting = None, ""


def patience(deadline):
    """A library's timeout, shorter than ours, so that it reports what it was waiting for."""
    return datetime.timedelta(seconds=max(0.8 * (deadline - time.monotonic()), 0.1))


def meet(order):
    global store, meeting
    store, meeting = None, ""  # ends the previous one
    host = order.get("meet") or "127.0.0.1"
    at("torch.distributed.TCPStore")
    store = dist.TCPStore(host, 0, order["size"], True, timeout=patience(time.monotonic() + order["seconds"]), wait_for_workers=False)
    meeting = ("[%s]:%d" if ":" in host else "%s:%d") % (host, store.port)
    return {"meet": meeting}


def addend(rank, size):
    """What a rank adds: rank+1 while float32 represents the sum exactly, less for larger groups."""
    return rank + 1 if size <= 4096 else rank % TILE + 1


def reduce(order):
    deadline = time.monotonic() + order["seconds"]
    rank, size = order["rank"], order["size"]
    mine = store
    if order["meet"] != meeting:
        host, port = order["meet"].rsplit(":", 1)
        at("torch.distributed.TCPStore")
        mine = dist.TCPStore(host.strip("[]"), int(port), size, False, timeout=patience(deadline), wait_for_workers=False)
    at("torch.distributed.init_process_group")
    dist.init_process_group(backend, store=mine, rank=rank, world_size=size, timeout=patience(deadline))

    def all_reduce(tensor, op=dist.ReduceOp.SUM):
        """Returns how long it took, in seconds."""
        synchronize()
        begun = time.perf_counter()
        work = dist.all_reduce(tensor, op, async_op=True)
        # The wait of NCCL and similar backends only blocks the device, not this process.
        while accelerator and not work.is_completed():
            if time.monotonic() > deadline:
                raise TimeoutError("not complete in time")
            time.sleep(0.0002)
        work.wait()
        synchronize()
        return time.perf_counter() - begun

    at("torch.distributed.all_reduce")
    want = sum(addend(r, size) for r in range(size))
    tensor = torch.empty(max(order["bytes"] // 4, 1), dtype=torch.float32, device=device)

    def once():
        tensor.fill_(addend(rank, size))
        took = all_reduce(tensor)
        verify(tensor, want)
        return took

    once()  # connects
    slowest = torch.tensor([once()], dtype=torch.float32, device=device)
    all_reduce(slowest, dist.ReduceOp.MAX)
    # All ranks must run the same number. The sum of zeros stays known, however often it is computed.
    times = int(min(max(0.5 / max(float(slowest), 1e-6), 1), 20))
    tensor.zero_()
    took = sum(all_reduce(tensor) for _ in range(times))
    verify(tensor, 0)
    at("torch.distributed.destroy_process_group")
    dist.destroy_process_group()
    return {"bit_rate": 8.0 * 2 * (size - 1) / size * tensor.numel() * 4 * times / took}


def answer(work):
    try:
        say(done=work())
    except Wrong as e:
        failed = {"kind": "wrong", "message": e.message, "element": e.element, "want": e.want}
        if abs(e.got) < float("inf"):
            failed["got"] = e.got
        say(failed=dict(failed, call=call))
    except Exception as e:
        text = str(e).strip()
        sys.stderr.write(text + "\n")  # the full text, into the log
        sys.stderr.flush()
        absent = isinstance(e, Absent) or isinstance(e, ModuleNotFoundError) and e.name == "torch"
        message = text if isinstance(e, Absent) else "%s: %s" % (type(e).__name__, text.split("\n")[0])
        say(failed={"kind": "absent" if absent else "error", "message": message, "call": call})


answer(load)
DO = {"compute": compute, "meet": meet, "reduce": reduce}
for line in orders:
    order = json.loads(line)
    answer(lambda: DO[order["do"]](order))
os._exit(0)  # skip the libraries' exit handlers, which may hang
