"""A GPU in memory: the calls of NVIDIA's driver that the runner makes, for a worker process.

A binary is a JSON object with the behaviour of its kernel, which doubles floats: parameters are
the input, the output and the number of elements. Time passes only for launches, each of which
takes the `microseconds` of its binary.
"""

from __future__ import annotations

import ctypes
import functools
import json
import math
import struct
import time
from collections.abc import Callable
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

_FIRST_ADDRESS, _ALIGN = 1 << 30, 256
_SHARED_LIMIT = 232_448
_FLOATS = {1: "f", 2: "e"}


class Error(IntEnum):
    """The driver's errors that the fake returns."""

    SUCCESS = 0
    INVALID_VALUE = 1
    OUT_OF_MEMORY = 2
    INVALID_IMAGE = 200
    ILLEGAL_ADDRESS = 700


class _Names:
    """Any attribute is its own name."""

    def __getattr__(self, name: str) -> str:
        return name


CUstreamCaptureMode = CUdevice_attribute = CUfunction_attribute = CUlaunchAttributeID = _Names()


def CUlaunchConfig() -> Any:
    return SimpleNamespace()


def CUlaunchAttribute() -> Any:
    return SimpleNamespace(value=SimpleNamespace(clusterDim=SimpleNamespace()))


class _Gpu:
    """The memory, the clock and the state of the GPU."""

    def __init__(self) -> None:
        self.blocks: dict[int, bytearray] = {}
        self.next = _FIRST_ADDRESS
        self.microseconds = 0.0
        self.fault = Error.SUCCESS
        self.recorded: list[Callable[[], None]] | None = None
        self.runs = 0

    def allocate(self, count: int) -> int:
        address = self.next
        self.blocks[address] = bytearray(count)
        self.next += (-(-count // _ALIGN) + 1) * _ALIGN
        return address

    def view(self, address: int, count: int) -> memoryview:
        for start, block in self.blocks.items():
            if start <= address and address + count <= start + len(block):
                return memoryview(block)[address - start : address - start + count]
        raise IndexError(address)


_gpu = _Gpu()


def _done(*values: Any) -> tuple[Any, ...]:
    return (_gpu.fault, *values)


def cuInit(flags: int) -> Any:
    return _done()


def cuDeviceGet(number: int) -> Any:
    return _done(number)


def cuDeviceGetName(length: int, device: int) -> Any:
    return _done(b"Fake GPU\0")


def cuDeviceGetAttribute(name: str, device: int) -> Any:
    values = {"MAJOR": 9, "MINOR": 0, "OPTIN": _SHARED_LIMIT}
    return _done(values[name.rpartition("_")[2]])


def cuDriverGetVersion() -> Any:
    return _done(13_000)


def cuDevicePrimaryCtxRetain(device: int) -> Any:
    return _done(1)


def cuCtxSetCurrent(context: int) -> Any:
    return _done()


def cuStreamCreate(flags: int) -> Any:
    return _done(1)


def cuMemAlloc(count: int) -> Any:
    return _done(_gpu.allocate(count))


def cuMemFree(address: int) -> Any:
    del _gpu.blocks[address]
    return _done()


def cuMemcpyHtoD(target: int, content: bytes, count: int) -> Any:
    _gpu.view(target, count)[:] = content[:count]
    return _done()


def cuMemcpyDtoH(content: bytearray, source: int, count: int) -> Any:
    content[:] = _gpu.view(source, count)
    return _done()


def cuMemcpyDtoDAsync(target: int, source: int, count: int, stream: int) -> Any:
    _gpu.view(target, count)[:] = bytes(_gpu.view(source, count))
    return _done()


def cuMemsetD8Async(address: int, value: int, count: int, stream: int) -> Any:
    if _gpu.recorded is not None:
        return _done()
    _gpu.view(address, count)[:] = bytes([value]) * count
    return _done()


def cuStreamSynchronize(stream: int) -> Any:
    return _done()


def cuModuleLoadData(code: bytes) -> Any:
    if b".entry compare" in code:
        return _done({"behaviour": "compare", "microseconds": 1})
    try:
        return _done(json.loads(code))
    except ValueError:
        return (Error.INVALID_IMAGE,)


def cuModuleGetFunction(module: Any, name: bytes) -> Any:
    return _done(module)


def cuModuleUnload(module: Any) -> Any:
    return _done()


def cuFuncSetAttribute(function: Any, name: str, value: int) -> Any:
    return (Error.INVALID_VALUE,) if value > _SHARED_LIMIT else _done()


def cuFuncGetAttribute(name: str, function: Any) -> Any:
    return _done(function.get("registers", 32) if name.endswith("REGS") else 0)


def cuLaunchKernelEx(config: Any, function: Any, parameters: int, extra: int) -> Any:
    kinds: list[Any] = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint32]
    if function["behaviour"] == "compare":
        kinds = [*[ctypes.c_uint64] * 4, *[ctypes.c_uint32] * 2]
        kinds += [ctypes.c_double, ctypes.c_double, ctypes.c_uint64]
    pointers = (ctypes.c_void_p * len(kinds)).from_address(parameters)
    values = [kind.from_address(place).value for kind, place in zip(kinds, pointers)]

    def run() -> None:
        _gpu.microseconds += function["microseconds"]
        _KERNELS[function["behaviour"]](*values)

    if _gpu.recorded is not None:
        _gpu.recorded.append(run)
    else:
        run()
    return (Error.SUCCESS,)


def cuStreamBeginCapture(stream: int, mode: str) -> Any:
    _gpu.recorded = []
    return _done()


def cuStreamEndCapture(stream: int) -> Any:
    graph, _gpu.recorded = _gpu.recorded, None
    return _done(graph)


def cuGraphInstantiate(graph: Any, flags: int) -> Any:
    return _done(graph)


def cuGraphDestroy(graph: Any) -> Any:
    return _done()


cuGraphExecDestroy = cuGraphDestroy


def cuGraphLaunch(graph: Any, stream: int) -> Any:
    for run in graph:
        run()
    return _done()


def cuEventCreate(flags: int) -> Any:
    return _done([0.0])


def cuEventDestroy(event: Any) -> Any:
    return _done()


def cuEventRecordWithFlags(event: list[float], stream: int, flags: int) -> Any:
    def record() -> None:
        event[0] = _gpu.microseconds

    assert _gpu.recorded is not None
    _gpu.recorded.append(record)
    return _done()


def cuEventElapsedTime(start: list[float], end: list[float]) -> Any:
    return _done((end[0] - start[0]) / 1_000)


def _double(source: int, target: int, count: int, factor: float = 2.0) -> None:
    values = struct.unpack(f"<{count}f", _gpu.view(source, 4 * count))
    results = [value * factor for value in values]
    _gpu.view(target, 4 * count)[:] = struct.pack(f"<{count}f", *results)


def _wrong(source: int, target: int, count: int) -> None:
    """Double all elements but one."""
    _double(source, target, count)
    _gpu.view(target + 4 * (count // 2), 4)[:] = struct.pack("<f", 3.5)


def _round(source: int, target: int, count: int) -> None:
    _double(source, target, count, 2.0 * (1 + 2.0**-12))


def _waver(source: int, target: int, count: int) -> None:
    """Double every element, with another factor in every run."""
    _gpu.runs += 1
    _double(source, target, count, 2.0 + _gpu.runs)


def _overflow(source: int, target: int, count: int) -> None:
    _double(source, target, count, math.inf)


def _write_beyond(source: int, target: int, count: int) -> None:
    _double(source, target, count)
    _gpu.view(target + 4 * count, 4)[:] = b"\1\2\3\4"


def _count(source: int, target: int, count: int, more: int = 0) -> None:
    """Write the places of all elements as i32, plus a number."""
    _gpu.view(target, 4 * count)[:] = struct.pack(f"<{count}i", *range(more, count + more))


def _large(source: int, target: int, count: int, more: int = 0) -> None:
    """Write an i64 that no double holds, plus a number."""
    content = struct.pack("<q", 2**62 + more) * (count // 2)
    _gpu.view(target, len(content))[:] = content


def _quantise(source: int, target: int, count: int, more: int = 0) -> None:
    """Write the places of all elements as bytes, plus a number."""
    _gpu.view(target, count)[:] = bytes((place + more) % 256 for place in range(count))


def _fault(source: int, target: int, count: int) -> None:
    _gpu.fault = Error.ILLEGAL_ADDRESS


def _hang(source: int, target: int, count: int) -> None:
    time.sleep(3_600)


def _do_nothing(source: int, target: int, count: int) -> None:
    pass


def _compare(
    one: int,
    two: int,
    before: int,
    count: int,
    size: int,
    form: int,
    absolute: float,
    relative: float,
    out: int,
) -> None:
    """Do what compare.cu does, for fp32, fp16 and integers."""
    kind = _FLOATS.get(form, {1: "B", 2: "H", 4: "I", 8: "Q"}[size])
    whole = {1: "B", 2: "H", 4: "I", 8: "Q"}[size]
    length = count * size
    columns = []
    for address in (one, two, before):
        content = bytes(_gpu.view(address, length))
        # As doubles: those of integers of 64 bits are rounded.
        columns.append(list(map(float, struct.unpack(f"<{count}{kind}", content))))
        columns.append(struct.unpack(f"<{count}{whole}", content))
    sums = [0.0] * 7
    largest, worst, low, high = 0.0, 0.0, 2**64 - 1, 0
    for x, a, y, b, _, c in zip(*columns):
        if a == b == c:
            continue
        low, high = min(low, a), max(high, a)
        sums[0] += 1
        sums[1] += a != b
        sums[2] += math.isfinite(x) != math.isfinite(y)
        sums[3] += not (math.isfinite(x) or math.isfinite(y))
        if math.isfinite(x) and math.isfinite(y):
            limit = absolute + relative * abs(x)
            difference = abs(x - y)
            if (size, form) == (1, 0):
                difference = min(difference, 256 - difference)
            sums[4] += difference > limit
            if x != y:
                worst = max(worst, difference / limit if limit else math.inf)
            sums[5] += x * x
            sums[6] += difference**2
            largest = max(largest, difference)
    _gpu.view(out, 88)[:] = struct.pack("<9d2Q", *sums, largest, worst, low, high)


_KERNELS: dict[str, Callable[..., None]] = {
    "double": _double,
    "wrong": _wrong,
    "round": _round,
    "waver": _waver,
    "overflow": _overflow,
    "write beyond": _write_beyond,
    "count": _count,
    "count from one": functools.partial(_count, more=1),
    "large": _large,
    "large and one": functools.partial(_large, more=1),
    "quantise": _quantise,
    "quantise by one more": functools.partial(_quantise, more=1),
    "quantise by two more": functools.partial(_quantise, more=2),
    "fault": _fault,
    "hang": _hang,
    "do nothing": _do_nothing,
    "compare": _compare,
}
