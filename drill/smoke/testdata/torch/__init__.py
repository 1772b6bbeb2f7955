"""As much of torch as a rank of the smoke test calls, with the faults that STUB asks for:
"hang reduce, noise import", or "refuse reduce GLOO_SOCKET_IFNAME=eth1" where that is set. A
tensor is some values repeated.
"""

import os
import signal
import sys
import time
import types


def fault(where):
    for kind, at, *settings in (wish.split() for wish in os.environ.get("STUB", "").split(",") if wish):
        if at == where and all(os.environ.get(name) == value for name, value in (s.split("=") for s in settings)):
            FAULTS[kind]()


def hang():
    open(os.environ["STUB_DIR"] + "/hangs", "w").close()
    while True:
        time.sleep(1000)


def fork():
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        hang()


def refuse():
    raise RuntimeError("it is refused\nfor reasons")


def noise():
    print('{"done": {"name": "somebody else"}}', flush=True)
    os.write(1, b'{"done": {"name": "somebody else"}}\nno end')
    os.write(2, b"a warning\n")


def flood():
    for _ in range(50):
        os.write(2, b"x" * 100000)
        os.write(2, b"y\n" * 50000)


def imitate():
    """Speaks like a rank, in words that no rank would use."""
    for fd in range(3, 20):
        try:
            os.write(fd, b'{"at": "%s"}\n' % (b"z" * 5000) + b"{" * 100000 + b"\n" + b'{"at": 1}\n{"done": []}\n{}\n[1]\nnull\n')
        except OSError:
            pass


damage = []
FAULTS = {
    "hang": hang, "fork": fork, "refuse": refuse, "noise": noise, "flood": flood, "imitate": imitate,
    "exit": lambda: os._exit(3), "crash": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "lack": lambda: (_ for _ in ()).throw(ModuleNotFoundError("No module named 'torch'", name="torch")),
    "wrong": lambda: damage.append(7.0), "nan": lambda: damage.append(float("nan")),
}


class Tensor:
    def __init__(self, values, times=1):
        self.values, self.times = values, times

    def like(self, other):
        return other if isinstance(other, Tensor) else Tensor([other] * len(self.values))

    def __ne__(self, other):
        return Tensor([x != y for x, y in zip(self.values, self.like(other).values)], self.times)

    def __getitem__(self, i):
        return Tensor([self.values[i]])

    def __float__(self):
        return float(self.values[0])

    def __int__(self):
        return int(self.values[0])

    def __bool__(self):
        return bool(self.values[0])

    def __len__(self):
        return len(self.values) * self.times

    numel = __len__

    def any(self):
        return any(self.values)

    def sum(self):
        return Tensor([sum(self.values)])

    def nonzero(self):
        return Tensor([i for i, x in enumerate(self.values) if x], self.times)

    def reshape(self, *_):
        return self

    def to(self, _):
        return self

    def repeat(self, *times):
        return Tensor(list(self.values), times[0])

    def fill_(self, value):
        self.values = [value] * len(self.values)

    def zero_(self):
        self.fill_(0)

    def strike(self):
        while damage:
            self.values[5] = damage.pop()


def tensor(values, dtype=None, device=None):
    return Tensor([float(x) for row in values for x in (row if isinstance(row, list) else [row])])


def arange(count, dtype=None, device=None):
    return Tensor(range(count))


def empty(count, dtype=None, device=None):
    return Tensor([0.0] * count)


def empty_like(other):
    return Tensor(list(other.values), other.times)


def matmul(a, b, out):
    fault("compute")
    side = 64
    columns = [b.values[j::side] for j in range(side)]
    rows = [a.values[i * side : (i + 1) * side] for i in range(side)]
    out.values = [a.times * sum(x * y for x, y in zip(row, column)) for row in rows for column in columns]
    out.strike()


__version__ = "1.9.0+stub"
__path__ = []
float32 = int32 = None
device = str
version = types.SimpleNamespace(cuda=None)


class TCPStore:
    port = 29500

    def __init__(self, host, port, size, master, timeout, wait_for_workers):
        fault("meet" if master else "join")


def init_process_group(backend, store, rank, world_size, timeout):
    fault("init")
    distributed.size = world_size


class Work:
    def wait(self):
        pass


def all_reduce(tensor, op, async_op):
    fault("reduce")
    if op == "sum" and tensor.values[0]:
        tensor.fill_(float(sum(range(distributed.size + 1))))
    tensor.strike()
    return Work()


distributed = types.ModuleType("torch.distributed")
distributed.__dict__.update(
    is_available=lambda: True, TCPStore=TCPStore, init_process_group=init_process_group, all_reduce=all_reduce,
    ReduceOp=types.SimpleNamespace(SUM="sum", MAX="max"), destroy_process_group=lambda: fault("destroy"))
sys.modules["torch.distributed"] = distributed
fault("import")
