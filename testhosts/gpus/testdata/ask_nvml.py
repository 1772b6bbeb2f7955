"""Asks libnvidia-ml.so.1 what the arguments name and prints a line for each.

An argument is FUNCTION, FUNCTION:GPU, FUNCTION:GPU:NUMBER… (numbers go between
the device and the result, and the version of a structure goes into it) or
FUNCTION:GPU:gpuN for a pair of devices. Layouts are nvml.h's, written down here
once more, so that a slip in one of the two shows.
"""

import ctypes
import sys

library = ctypes.CDLL("libnvidia-ml.so.1")
library.nvmlErrorString.restype = ctypes.c_char_p
u32, u64 = ctypes.c_uint, ctypes.c_ulonglong


def struct(*fields):
    return type("Struct", (ctypes.Structure,), {"_fields_": [(name, kind) for name, kind in fields]})


pci = struct(("legacy", ctypes.c_char * 16), ("domain", u32), ("bus", u32), ("device", u32), ("id", u32), ("subsystem", u32), ("busId", ctypes.c_char * 32))
memory = struct(("total", u64), ("free", u64), ("used", u64))
memory_v2 = struct(("version", u32), ("total", u64), ("reserved", u64), ("free", u64), ("used", u64))
process = struct(("pid", u32), ("memory", u64), ("instance", u32), ("compute", u32))
field = struct(("id", u32), ("scope", u32), ("time", u64), ("took", u64), ("kind", u32), ("code", u32), ("value", u64))
fabric = [("cluster", ctypes.c_ubyte * 16), ("status", u32), ("clique", u32), ("state", ctypes.c_ubyte)]
fabric_v2 = struct(("version", u32), *fabric, ("health", u32))
fabric_v3 = struct(("version", u32), *fabric, ("health", u32), ("summary", ctypes.c_ubyte))


# What functions give beside one unsigned int.
structures = {
    "nvmlDeviceGetPciInfo_v3": pci,
    "nvmlDeviceGetNvLinkRemotePciInfo_v2": pci,
    "nvmlDeviceGetMemoryInfo": memory,
    "nvmlDeviceGetMemoryInfo_v2": lambda: versioned(memory_v2, 2),
    "nvmlDeviceGetGpuFabricInfo": struct(*fabric),
    "nvmlDeviceGetUtilizationRates": struct(("gpu", u32), ("memory", u32)),
    "nvmlDeviceGetTotalEccErrors": u64,
    "nvmlDeviceGetNvLinkErrorCounter": u64,
    "nvmlDeviceGetCurrentClocksEventReasons": u64,
    "nvmlDeviceGetCurrentClocksThrottleReasons": u64,
}
counts = {
    "nvmlDeviceGetCudaComputeCapability": 2,
    "nvmlDeviceGetPowerManagementLimitConstraints": 2,
    "nvmlDeviceGetMigMode": 2,
    "nvmlDeviceGetEccMode": 2,
    "nvmlDeviceGetRemappedRows": 4,
}


def told(value):
    """A result as text: strings and numbers as they are, structures by field."""
    if isinstance(value, ctypes.Structure):
        return " ".join(f"{name}={told(getattr(value, name))}" for name, _ in value._fields_)
    if isinstance(value, ctypes.Array) and not isinstance(value, ctypes.c_char * len(value)):
        return bytes(value).hex()
    value = getattr(value, "value", value)
    return value.decode() if isinstance(value, bytes) else str(value)


def call(name, *arguments):
    """Calls a function; None is where there is none."""
    try:
        function = getattr(library, name)
    except AttributeError:
        return None
    return function(*arguments)


def versioned(kind, number):
    return kind(version=ctypes.sizeof(kind) | number << 24)


def ask(name, device, numbers):
    """Returns the code and the results."""
    before = ([device] if device else []) + numbers
    if "Processes" in name:
        room, found = u32(8), (process * 8)()
        code = call(name, *before, ctypes.byref(room), found)
        return code, [room] + list(found[: room.value] if code == 0 else [])
    if name == "nvmlDeviceGetFieldValues":
        values = (field * len(numbers))(*[field(id=number, scope=13) for number in numbers])
        return call(name, device, len(values), values), [x for value in values for x in (value.code, value.value)]
    if name == "nvmlDeviceGetRetiredPages":
        room = u32(64)
        return call(name, *before, ctypes.byref(room), (u64 * 64)()), [room]
    if name.endswith("Affinity"):
        mask = (ctypes.c_ulong * 4)()
        return call(name, device, 4, mask, *numbers), [f"{word:x}" for word in mask]
    if name.endswith(("Name", "UUID", "Serial", "VbiosVersion", "SystemGetDriverVersion", "NVMLVersion")):
        text = ctypes.create_string_buffer(96)
        return call(name, *before, text, 96), [text]
    if name == "nvmlDeviceGetGpuFabricInfoV":
        results, before = [versioned(fabric_v3 if numbers == [3] else fabric_v2, numbers[0])], [device]
    elif name in structures:
        results = [structures[name]()]
    else:
        results = [u32() for _ in range(counts.get(name, 1))]
    return call(name, *before, *map(ctypes.byref, results)), results


def handle(gpu):
    """The handle of a GPU, or of the GPU's instance: "3" or "3.mig1"."""
    gpu, _, instance = gpu.partition(".mig")
    device = ctypes.c_void_p()
    code = library.nvmlDeviceGetHandleByIndex_v2(int(gpu), ctypes.byref(device))
    if code == 0 and instance:
        parent, device = device, ctypes.c_void_p()
        code = library.nvmlDeviceGetMigDeviceHandleByIndex(parent, int(instance), ctypes.byref(device))
    return code, device


for question in sys.argv[1:]:
    name, *rest = question.split(":")
    code, device, results = 0, None, []
    if rest:
        code, device = handle(rest[0])
    if code == 0 and name in ("nvmlInit_v2", "nvmlShutdown"):
        code = call(name)
    elif code == 0:
        numbers = [handle(x[3:])[1] if x.startswith("gpu") else int(x) for x in rest[1:]]
        code, results = ask(name, device, numbers)
    if code is None:
        print(f"{question}: no such function", flush=True)
    elif code != 0:
        print(f"{question}: {code} {library.nvmlErrorString(code).decode()}", flush=True)
    else:
        print(f"{question}:" + "".join(" " + told(result) for result in results), flush=True)
