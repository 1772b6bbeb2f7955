# SPDX-License-Identifier: Apache-2.0
"""Stands in for the training script in one rank of a rehearsed launch.

usage: a launcher runs this file in the place of the user's script; it ignores its arguments

rank.go fills in the parameters and describes them. What happens goes as lines of JSON into a file
next to this one. It must run wherever training does: Python 3.6, torch 1.9.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
MAIN = __name__ == "__main__"  # False in the workers of a DataLoader that import this file
if MAIN:
    sys.dont_write_bytecode = True
    parent = os.getppid()
    report = os.open(os.path.join(HERE, "rank-%d" % os.getpid()), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    loaded = set(sys.modules)
    # Python puts no directory first with -P and -I. Without it, the imports below are the library's
    # even if the user's directory has a file of such a name.
    has_first = bool(sys.path) and os.path.realpath(sys.path[0]) == os.path.realpath(HERE)
    if has_first:
        del sys.path[0]

import _thread
import ast
import datetime
import faulthandler
import importlib.machinery
import importlib.util
import json
import pathlib
import select
import signal
import socket
import time
import traceback

P = json.loads(bytes.fromhex("@PARAMETERS@").decode())
begun = since = time.monotonic()
stage, detail, over = "start", "", False


def say(event, **word):
    """Appends a line to the report with one write, so that it is never torn."""
    word.update(
        at=round(time.monotonic() - begun, 3), host=os.uname().nodename, event=event, stage=stage,
        rank=os.environ.get("RANK", ""), local=os.environ.get("LOCAL_RANK", ""))
    line = json.dumps(word)
    while len(line) > 16000:
        longest = max((key for key in word if isinstance(word[key], str)), key=lambda key: len(word[key]))
        word[longest] = word[longest][-(len(word[longest]) // 2):]
        line = json.dumps(word)
    try:
        os.write(report, (line + "\n").encode())
    except OSError:
        pass


def enter(name, what=""):
    """Ends the stage under way and begins the next."""
    global stage, detail, since
    say("done", seconds=round(time.monotonic() - since, 3))
    stage, detail, since = name, what, time.monotonic()
    say("begin", detail=what)


unknowns = 0


def unknown(text):
    global unknowns
    unknowns += 1
    if unknowns <= 8:
        say("unknown", detail=text)


# ---- The watcher, a thread that speaks and leaves if the rank cannot.

def descendants():
    """The processes that this one started, and those that they started."""
    found, todo = [], [os.getpid()]
    while todo:
        tasks = "/proc/%d/task" % todo.pop()
        try:
            for task in os.listdir(tasks):
                with open("%s/%s/children" % (tasks, task)) as f:
                    children = [int(pid) for pid in f.read().split()]
                found += children
                todo += children
        except OSError:
            pass
    return found


def leave(how, code, **word):
    say("ended", how=how, **word)
    for pid in descendants():
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    os._exit(code)


def unanswered():
    """The connections of this process that the other end does not answer: a connection attempt, or
    data that had to be sent again."""
    mine = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            mine.add(os.readlink("/proc/self/fd/" + fd))
        except OSError:
            pass
    found = []
    for table in ("tcp", "tcp6"):
        try:
            with open("/proc/self/net/" + table) as f:
                rows = [row.split() for row in f.read().splitlines()[1:]]
        except OSError:
            continue
        for row in rows:
            if "socket:[%s]" % row[9] not in mine:
                continue
            unacknowledged = int(row[4].split(":")[0], 16)
            if row[3] == "02":  # SYN_SENT
                state = "connecting"
            elif unacknowledged and row[5].startswith("01:") and int(row[6], 16):  # sent again at least once
                state = "unacknowledged"
            else:
                continue
            found.append({"state": state, "bytes": unacknowledged, "local": address(row[1]), "remote": address(row[2])})
    return found[:16]


def address(text):
    """Reads an address of /proc/net/tcp, whose 32-bit words are in the order of this machine."""
    words, port = text.split(":")
    raw = bytes.fromhex(words)
    if sys.byteorder == "little":
        raw = b"".join(raw[i:i + 4][::-1] for i in range(0, len(raw), 4))
    if len(raw) == 4 or raw[:12] == bytes(10) + b"\xff\xff":
        return "%s:%d" % (socket.inet_ntoa(raw[-4:]), int(port, 16))
    return "[%s]:%d" % (socket.inet_ntop(socket.AF_INET6, raw), int(port, 16))


COMPILERS = {"cc1", "cc1plus", "cicc", "clang", "clang++", "cmake", "g++", "gcc", "hipcc", "ld", "make", "ninja", "nvcc", "ptxas"}
main_thread = _thread.get_ident()


def building():
    """The compiler that runs below this process, or the file of torch that waits for a build."""
    for pid in descendants():
        try:
            with open("/proc/%d/comm" % pid) as f:
                name = f.read().strip()
        except OSError:
            continue
        if name in COMPILERS:
            return name
    frame = sys._current_frames().get(main_thread)
    while frame:
        name = os.path.basename(frame.f_code.co_filename)
        if name in ("cpp_extension.py", "file_baton.py"):
            return name
        frame = frame.f_back
    return ""


def stacks():
    """The stacks of all threads but this one. The main thread is last."""
    frames = sys._current_frames()
    others = sorted((i for i in frames if i != _thread.get_ident()), key=lambda i: i == main_thread)
    return "\n".join("".join(traceback.format_stack(frames[i])) for i in others)[-2000:]


def watch(wake):
    poller = select.poll()
    poller.register(1, 0)
    poller.register(wake, select.POLLIN)
    watched, told, built = "", 0, ""
    while not over:
        for fd, events in poller.poll(500):
            if fd == wake and set(os.read(wake, 64)) & ENDING:
                leave("terminated", 143)
            elif fd == 1 and events & (select.POLLERR | select.POLLHUP):
                leave("abandoned", 1, detail="nobody reads its output")
            elif fd == 1:
                poller.unregister(1)  # closed
        if over:
            return
        if os.getppid() != parent:
            leave("abandoned", 1, detail="the launcher is gone")
        if not os.path.isdir(HERE) or os.path.exists(os.path.join(HERE, "stop")):
            leave("abandoned", 1, detail="told to stop")
        if time.monotonic() - begun > P["seconds"]:
            leave("deadline", 1, trace=stacks(), detail=detail, building=building())
        if (stage, detail) != watched:
            watched, told, built, quiet = (stage, detail), 0, "", time.monotonic()
        if stage in ("start", "import", "failed") or time.monotonic() - quiet < 2:
            continue
        what = building()
        if what:
            quiet = time.monotonic() - 2
            if what != built:
                built = what
                say("building", what=what)
        elif time.monotonic() - quiet > (6, 14, float("inf"))[told]:
            told += 1
            sockets = unanswered()
            say("stalled", sockets=sockets, idle=not sockets, detail=detail)


# ---- Imports.

CALLS = {
    "Path", "PurePath", "abspath", "absolute", "as_posix", "basename", "cwd", "dirname", "exists", "expanduser", "expandvars", "format", "get", "getcwd", "getenv",
    "home", "int", "is_dir", "is_file", "isdir", "isfile", "join", "joinpath", "len", "normpath", "realpath", "relpath", "resolve", "split", "startswith", "str"}
NODES = {
    "Add", "And", "Attribute", "BinOp", "BoolOp", "Call", "Compare", "Constant", "Div", "Eq", "FormattedValue", "Gt", "GtE", "In", "Index", "Is", "IsNot", "JoinedStr",
    "List", "Load", "Lt", "LtE", "Mod", "Name", "NameConstant", "Not", "NotEq", "NotIn", "Num", "Or", "Slice", "Str", "Sub", "Subscript", "Tuple", "UnaryOp", "USub"}
FINDING = {"__path__", "addsitedir", "meta_path", "path_hooks"}  # names of what changes where modules are found


def harmless(value):
    """Whether a plain expression may use this value of a name."""
    return isinstance(value, (str, int, float, tuple, list, type(None), pathlib.PurePath)) or \
        any(value is v for v in (os, sys, os.path, os.environ, os.getcwd, os.getenv, pathlib, pathlib.Path, pathlib.PurePath)) or \
        getattr(value, "__module__", "") in ("posixpath", "genericpath")


DYNAMIC = {"__dict__", "__getattr__", "exec", "globals", "locals", "modules", "setattr", "vars"}  # names of what may add names to a module
MODULE = {"__builtins__", "__cached__", "__doc__", "__file__", "__loader__", "__name__", "__package__", "__path__", "__spec__"}


class Unclear(Exception):
    """An expression that is not computed here."""


def compute(node, names):
    """Computes an expression made of constants, __file__, os, sys, Path and names for such values."""
    for part in ast.walk(node):
        kind = type(part).__name__
        called = getattr(part, "func", None)
        if kind not in NODES or \
                kind == "Name" and not (harmless(names[part.id]) if part.id in names else part.id in CALLS) or \
                kind == "Call" and getattr(called, "attr", getattr(called, "id", "")) not in CALLS:
            raise Unclear()
    try:
        return eval(compile(ast.Expression(node), "", "eval"), names)
    except Exception:
        raise Unclear()


def holds(test, names):
    """Whether a condition holds; None if that cannot be told."""
    if getattr(test, "attr", getattr(test, "id", "")) == "TYPE_CHECKING":
        return False
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = holds(test.operand, names)
        return None if inner is None else not inner
    try:
        return bool(compute(test, names))
    except Unclear:
        return None


def catches(handler, error):
    kinds = getattr(handler.type, "elts", [handler.type])
    bases = [base.__name__ for base in type(error).__mro__]
    return any(kind is None or getattr(kind, "attr", getattr(kind, "id", "")) in bases for kind in kinds)


def bound(tree):
    """The names that a module may have; None if that cannot be told from its text."""
    names = set()
    for node in ast.walk(tree):
        name = getattr(node, "id", getattr(node, "attr", getattr(node, "name", "")))
        if name in DYNAMIC:
            return None
        if isinstance(node, ast.alias):
            if node.name == "*":
                return None
            name = node.asname or node.name.split(".")[0]
        elif isinstance(node, ast.Global):
            names.update(node.names)
        elif isinstance(node, ast.Attribute) or isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            continue
        if name:
            names.add(name)
    return names


class Reader:
    """Follows what a script imports at its top. It reads the user's own modules and does not run
    them, because that may start a training. It imports the others."""

    def __init__(self):
        self.followed, self.doubts, self.installed, self.bound = set(), [], {}, {}
        self.error, self.place = None, ""  # the innermost import that failed

    def read(self, name, path, package):
        with open(path, "rb") as f:
            tree = ast.parse(importlib.util.decode_source(f.read()), path)
        self.bound[name] = bound(tree), path
        self.run(tree.body, path, {"__name__": name, "__file__": path, "__package__": package})

    def run(self, body, path, names, caught=None):
        """Goes through statements. caught is the error that an except clause handles."""
        for node in body:
            kind = type(node).__name__
            if kind in ("Import", "ImportFrom"):
                try:
                    self.imports(node, path, names)
                except BaseException as e:
                    if self.error is not e:
                        self.error, self.place = e, "line %d of %s" % (node.lineno, path)
                    raise
            elif kind in ("Try", "TryStar"):
                try:
                    self.run(node.body, path, names, caught)
                except Exception as e:
                    handler = next((h for h in node.handlers if catches(h, e)), None)
                    if handler is None:
                        raise
                    self.run(handler.body, path, names, e)
                else:
                    self.run(node.orelse, path, names, caught)
                self.run(node.finalbody, path, names, caught)
            elif kind == "If":
                held = holds(node.test, names)
                if held is not None:
                    self.run(node.body if held else node.orelse, path, names, caught)
                else:
                    self.skip(node, path)
            elif kind == "With":
                suppressed = "suppress" in ast.dump(node.items[0].context_expr)
                try:
                    self.run(node.body, path, names, caught)
                except Exception:
                    if not suppressed:
                        raise
            elif caught and (kind == "Raise" or kind == "Expr" and getattr(getattr(node.value, "func", None), "attr", "") in ("exit", "_exit")):
                raise caught
            else:
                self.statement(node, path, names)

    def skip(self, node, path):
        """Notes what a statement that is not followed may change."""
        line = "line %d of %s" % (node.lineno, path)
        for part in ast.walk(node):
            name = getattr(part, "attr", getattr(part, "id", ""))
            if name in FINDING or name == "path" and getattr(getattr(part, "value", None), "id", "") == "sys":
                self.doubts.append(line)
                break
        if isinstance(node, ast.If) and any(isinstance(part, (ast.Import, ast.ImportFrom)) for part in ast.walk(node)):
            unknown(line + ": whether this imports a module depends on a condition")

    def statement(self, node, path, names):
        """Runs changes of sys.path and os.environ made of plain expressions, and keeps plain values."""
        target, parts, changed = None, [], None
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            target, parts = node.targets[0] if isinstance(node, ast.Assign) else node.target, [node.value]
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call = node.value
            if getattr(call.func, "attr", "") in ("append", "extend", "insert", "setdefault"):
                target, parts = call.func, list(call.args)
        try:
            if isinstance(target, ast.Name) and isinstance(node, ast.Assign):
                names.pop(target.id, None)
                names[target.id] = compute(node.value, names)
            elif isinstance(target, ast.Attribute) and target.attr == "path" and compute(target.value, names) is sys:
                changed = sys.path
            elif isinstance(target, (ast.Attribute, ast.Subscript)):
                changed = compute(target.value, names)
                if isinstance(target, ast.Subscript):
                    parts.append(target.slice)
            if changed is sys.path or changed is os.environ:
                for part in parts:
                    if not isinstance(part, ast.Slice):
                        compute(getattr(part, "value", part) if type(part).__name__ == "Index" else part, names)
                exec(compile(ast.Module(body=[node], type_ignores=[]), path, "exec"), names)
                return
        except Exception:  # too clever, or it would fail; the training may know more
            if changed is os.environ:
                unknown("line %d of %s: sets an environment variable that is not set here" % (node.lineno, path))
        self.skip(node, path)

    def imports(self, node, path, names):
        if isinstance(node, ast.Import):
            for alias in node.names:
                origin = self.origin(alias.name)
                if origin == "foreign":
                    self.execute(ast.copy_location(ast.Import(names=[alias]), node), path, names)
                else:
                    names.pop(alias.asname or alias.name.split(".")[0], None)
                if origin == "own":
                    self.follow(alias.name)
            return
        base = node.module or ""
        if node.level:
            if not names["__package__"]:
                raise ImportError("attempted relative import with no known parent package")
            base = importlib.util.resolve_name("." * node.level + base, names["__package__"])
        origin = self.origin(base)
        if origin == "foreign":
            self.execute(node, path, names)
            return
        inside = self.follow(base) if origin == "own" else None
        for alias in node.names:
            names.pop(alias.asname or alias.name, None)
            if inside and importlib.machinery.PathFinder.find_spec(base + "." + alias.name, inside):
                self.follow(base + "." + alias.name)
                continue
            known, where = self.bound.get(base, (None, ""))
            if known is not None and alias.name not in known | MODULE | {"*"}:
                raise ImportError("cannot import name %r from %r (%s)" % (alias.name, base, where), name=base, path=where)

    def execute(self, node, path, names):
        exec(compile(ast.Module(body=[node], type_ignores=[]), path, "exec"), names)

    def origin(self, name):
        """Whether a module is the user's "own" or "foreign"; "" if it may be somewhere that is not
        known here."""
        top = name.split(".")[0]
        try:
            spec = importlib.util.find_spec(top)
        except ValueError:  # of a loaded module without a spec
            return "foreign"
        if spec is None:
            if self.doubts:
                unknown("no module named %s, but %s may change where modules are found" % (top, self.doubts[-1]))
                return ""
            raise ModuleNotFoundError("No module named %r" % top, name=top)
        inside = spec.submodule_search_locations
        path = list(inside)[0] if inside else spec.origin if spec.has_location else ""
        path = os.path.realpath(path) if path else ""
        library = os.path.dirname(os.path.realpath(os.__file__))
        if not path or top in ("torch", "deepspeed") or path.startswith(library + os.sep):
            return "foreign"
        above = os.path.dirname(path)
        if above not in self.installed:  # pip installed something there
            self.installed[above] = any(entry.endswith(".dist-info") for entry in os.listdir(above))
        return "foreign" if self.installed[above] or {"site-packages", "dist-packages"} & set(path.split(os.sep)) else "own"

    def follow(self, name):
        """Follows an own module after the packages above it. It returns where its submodules are."""
        spec, full = None, ""
        for part in name.split("."):
            above, full = full, (full + "." + part).strip(".")
            if spec is None:
                spec = importlib.util.find_spec(full)
            elif spec.submodule_search_locations is None:
                raise ModuleNotFoundError("No module named %r; %r is not a package" % (full, above), name=full)
            else:
                spec = importlib.machinery.PathFinder.find_spec(full, list(spec.submodule_search_locations))
            if spec is None and self.doubts:
                unknown("no module named %s, but %s may change where modules are found" % (full, self.doubts[-1]))
                return None
            if spec is None:
                raise ModuleNotFoundError("No module named %r" % full, name=full)
            package = spec.submodule_search_locations is not None
            if full not in self.followed and len(self.followed) < 1000 and (spec.origin or "").endswith(".py"):
                self.followed.add(full)
                try:
                    self.read(full, spec.origin, full if package else above)
                except BaseException:
                    self.followed.discard(full)  # as Python does
                    raise
        return spec.submodule_search_locations and list(spec.submodule_search_locations)

    def module(self, name):
        """Follows the module of a launch with -m. Python itself runs the packages above it."""
        if self.origin(name) == "foreign":
            spec = importlib.util.find_spec(name)
            inside = spec and spec.submodule_search_locations
        else:
            above = name.rpartition(".")[0]
            inside = self.follow(above) if above else None
            spec = importlib.machinery.PathFinder.find_spec(name, inside) if inside or not above else None
            inside = spec and spec.submodule_search_locations
            if inside:
                self.follow(name)
        if inside:
            found = importlib.machinery.PathFinder.find_spec(name + ".__main__", list(inside))
            if found is None:
                raise ModuleNotFoundError("No module named %s.__main__; %r is a package and cannot be directly executed" % (name, name), name=name)
            spec, name = found, name + ".__main__"
        if spec is None:
            raise ModuleNotFoundError("No module named " + name, name=name)
        sys.argv[0] = spec.origin
        return spec.origin, name.rpartition(".")[0]


def place():
    """Makes sys.path[0] what it is for the user's script, and forgets the modules imported so far
    if a file there takes the place of one of them."""
    first = os.getcwd()
    if not P.get("module") and P.get("script"):
        script = os.path.realpath(P["script"])
        first = script if os.path.isdir(script) else os.path.dirname(script)
        sys.argv[0] = P["script"]
    if not has_first:
        return
    sys.path.insert(0, first)
    ours = set(sys.modules) - loaded - {__name__}
    try:
        if {entry.split(".")[0] for entry in os.listdir(first)} & ours:
            for name in ours:
                del sys.modules[name]
    except OSError:
        pass


def read_script():
    reader, path, package = Reader(), P.get("script") and os.path.abspath(P["script"]), ""
    try:
        if P.get("module"):
            path, package = reader.module(P["module"])
        elif path and os.path.isdir(path):
            path = os.path.join(path, "__main__.py")
        if path:
            with open(path, "rb"):
                pass
    except (OSError, ModuleNotFoundError) as e:
        say("missing", detail="%s: %s" % (type(e).__name__, e))
        raise
    try:
        if path:
            reader.read("__main__", path, package)
    except BaseException:
        global detail
        detail = reader.place
        raise


# ---- The stages.

# Accelerators: torch's name, the plugins to import if installed, and the backend. XPU has its own
# backend in torch from 2.8 on.
ACCELERATORS = (
    ("cuda", (), "nccl"),
    ("npu", ("torch_npu",), "hccl"),
    ("hpu", ("habana_frameworks.torch.core", "habana_frameworks.torch.distributed.hccl"), "hccl"),
    ("xpu", ("intel_extension_for_pytorch", "oneccl_bindings_for_pytorch"), "ccl"),
)


def import_libraries():
    global torch, dist
    import torch
    import torch.distributed as dist

    if not dist.is_available():
        raise RuntimeError("torch %s was built without torch.distributed" % torch.__version__)
    if not torch.version.cuda and on_gpu():
        for plugin in (plugin for _, plugins, _ in ACCELERATORS for plugin in plugins):
            if importlib.util.find_spec(plugin.split(".")[0]):
                importlib.import_module(plugin)
    if P.get("deepspeed"):
        importlib.import_module("deepspeed")


def on_gpu():
    """Whether the ranks may use a GPU: not if the launch asks for none and names a backend of CPUs."""
    return P.get("gpu") or P.get("backend", "") not in ("gloo", "mpi")


def find_device():
    """The device of the collectives, its module of torch or None for the CPU, and the backend."""
    wanted = P.get("backend", "")
    chosen = None
    for kind, _, backend in ACCELERATORS if on_gpu() else ():
        module = getattr(torch, kind, None)
        if module is not None and module.is_available():
            chosen = kind, module, backend
            break
    if chosen is None and (P.get("gpu") or wanted not in ("", "gloo", "mpi")):
        chosen = "cuda", torch.cuda, "nccl"  # its error is the error of the training
    if chosen is None:
        return torch.device("cpu"), None, wanted or "gloo"
    kind, module, backend = chosen
    local = int(os.environ.get("LOCAL_RANK") or 0)
    if P.get("mpi") and module.device_count():
        local %= module.device_count()  # the cluster's manager may show each rank its own GPU only
    module.set_device(local)
    device = torch.device(kind, local)
    torch.zeros(1, device=device)
    module.synchronize()
    if kind == "xpu" and getattr(dist, "is_xccl_available", bool)():
        backend = "xccl"
    if wanted in ("gloo", "mpi"):
        return torch.device("cpu"), None, wanted
    return device, module, wanted or backend


def left():
    """Seconds for the library's calls. It must give up before this rank does, to say why."""
    return max(0.75 * P["seconds"] - (time.monotonic() - begun), 2)


def complete(work, accelerator):
    """Waits for a collective. The wait of NCCL and similar backends blocks only the device."""
    limit = time.monotonic() + left()
    while accelerator and not work.is_completed():
        if time.monotonic() > limit:
            raise TimeoutError("the collective is not complete after %d s" % left())
        time.sleep(0.001)
    work.wait()
    if accelerator:
        accelerator.synchronize()


def reduce(count, device, accelerator):
    """Adds tensors of all ranks and verifies every element."""
    rank, size = dist.get_rank(), dist.get_world_size()
    # float32 represents rank+1 and the sum exactly up to 4096 ranks.
    addend = (lambda r: r + 1) if size <= 4096 else (lambda r: r % 64 + 1)
    tensor, want = torch.full((count,), float(addend(rank)), device=device), sum(addend(r) for r in range(size))
    complete(dist.all_reduce(tensor, async_op=True), accelerator)
    wrong = tensor != want  # a NaN is unequal to anything
    if bool(wrong.any()):
        first = int(wrong.nonzero()[0])
        raise ArithmeticError("%d of %d elements are wrong: element %d is %s, not %d" % (int(wrong.sum()), count, first, float(tensor[first]), want))


class Numbers:
    """A dataset."""

    def __len__(self):
        return 8

    def __getitem__(self, i):
        import torch
        return torch.full((1000,), float(i))


def default_signals(worker):
    """Makes a worker of the DataLoader end on signals and not report them."""
    signal.set_wakeup_fd(-1)
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)


def load():
    from torch.utils.data import DataLoader
    loader = DataLoader(Numbers(), batch_size=2, num_workers=2, timeout=left(), worker_init_fn=default_signals)
    total = sum(float(batch.sum()) for batch in loader)
    if total != 28000:
        raise ArithmeticError("the sum of the workers' batches is %s, not 28000" % total)


def write_files():
    global detail
    for directory in (P.get("directories") or []) + [d for d in P.get("outputs") or [] if os.path.isdir(d)]:
        detail = directory
        while not os.path.exists(directory):  # the training creates it
            directory = os.path.dirname(directory)
        path = os.path.join(directory, ".preflight-%s-%s-%d" % (P["id"], os.uname().nodename, os.getpid()))
        try:
            with open(path, "wb") as f:
                f.write(bytes(4096))
                f.flush()
                os.fsync(f.fileno())
        except OSError as e:
            if os.environ.get("RANK", "0") == "0":
                raise
            say("unwritten", error="%s: %s" % (directory, e.strerror))  # in most trainings only rank 0 writes
        finally:
            if os.path.exists(path):
                os.remove(path)


def rehearse():
    enter("import", P.get("module") or P.get("script", ""))
    read_script()
    import_libraries()
    enter("device")
    device, accelerator, backend = find_device()
    enter("meet", backend)
    timeout = datetime.timedelta(seconds=left())
    deepspeed = sys.modules.get("deepspeed")
    if P.get("mpi") and not os.environ.get("MASTER_ADDR"):  # mpirun itself sets none, so the training must ask MPI
        from deepspeed.comm.comm import mpi_discovery
        mpi_discovery(verbose=False)
    if deepspeed:  # the training does the same
        deepspeed.init_distributed(dist_backend=backend, timeout=timeout)
    else:
        dist.init_process_group(backend, timeout=timeout)
    enter("small")
    reduce(1, device, accelerator)
    enter("large")
    reduce(max(P.get("bytes") or 64 << 20, 4) // 4, device, accelerator)
    enter("barrier")
    complete(dist.barrier(async_op=True), accelerator)
    enter("loader")
    load()
    enter("files")
    write_files()
    enter("leave")
    complete(dist.barrier(async_op=True), accelerator)
    dist.destroy_process_group()


ENDING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}


def main():
    global stage, detail, over
    if P.get("mpi"):
        for name, theirs in (
                ("RANK", ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")),
                ("WORLD_SIZE", ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")),
                ("LOCAL_RANK", ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"))):
            value = next((os.environ[t] for t in theirs if os.environ.get(t)), "")
            if value:
                os.environ.setdefault(name, value)
    # The interpreter runs a handler only between its own instructions. The number of the signal goes
    # into a pipe at once, and the watcher reads it although the main thread may wait in a library.
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    for number in ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    faulthandler.enable()
    faulthandler.dump_traceback_later(P["seconds"] + 2, exit=True)  # if a library keeps the watcher from running
    say("begin", detail="Python " + sys.version.split()[0])
    _thread.start_new_thread(watch, (wake,))
    place()
    try:
        rehearse()
    except BaseException as e:
        trace = traceback.format_exc()
        say("failed", error=("%s: %s" % (type(e).__name__, e))[:1500], trace="".join(traceback.format_tb(e.__traceback__))[-2000:], detail=detail)
        stage = "failed"
        sys.stderr.write(trace)
        sys.stderr.flush()
        time.sleep(3)  # its launcher ends the other ranks when this one leaves; they may have to say something
        os._exit(1)
    say("done", seconds=round(time.monotonic() - since, 3))
    over = True
    say("ended", how="finished")
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)


if MAIN:
    main()
