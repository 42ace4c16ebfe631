"""A GPU through NVIDIA's driver: memory, binaries, launches, graphs, events."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..engine.messages import Json

# Errors after which a process can no longer use its GPU, from cuda.h.
_FATAL = frozenset((700, 702, 709, 710, *range(714, 720)))
# The flag of an event that is recorded as a node of a graph, from cuda.h.
_EXTERNAL = 1
# A parameter's C type by Triton's name. Booleans and short integers are passed in four bytes, of
# which the kernel reads the lowest.
_WIDE = ("i64", "u64")
# Shared memory beyond this many bytes has to be requested.
_SHARED_BYTES = 48 << 10


class DriverError(Exception):
    """An error of a driver's function; `is_fatal` if the process lost its GPU."""

    def __init__(self, function: str, code: int, name: str) -> None:
        super().__init__(f"{function}: {name}")
        self.is_fatal = code in _FATAL


@dataclass
class LoadedBinary:
    """A loaded binary: the driver's function, its launch, and figures of the driver."""

    module: Any
    handle: Any
    launch: Json
    registers: int
    stack: int


@dataclass
class TimedGraph:
    """A graph of launches with the events before and after each."""

    executable: Any
    events: list[tuple[Any, Any]]


class Gpu:
    """The first GPU, in the primary context of this process. `cuda` is `cuda.bindings.driver`."""

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda
        self._call("cuInit", 0)
        self._device = self._call("cuDeviceGet", 0)
        context = self._call("cuDevicePrimaryCtxRetain", self._device)
        self._call("cuCtxSetCurrent", context)
        self._stream = self._call("cuStreamCreate", 1)

    def _call(self, name: str, *args: Any) -> Any:
        """Call a function of the driver and return its result; raise DriverError."""
        error, *values = getattr(self._cuda, name)(*args)
        if int(error):
            raise DriverError(name, int(error), getattr(error, "name", str(error)))
        return values[0] if values else None

    def describe(self) -> Json:
        """Return the facts of the GPU that identify a measurement."""
        attributes = self._cuda.CUdevice_attribute
        prefix = "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY"
        capability = []
        for part in ("MAJOR", "MINOR"):
            attribute = getattr(attributes, f"{prefix}_{part}")
            capability.append(int(self._call("cuDeviceGetAttribute", attribute, self._device)))
        name = self._call("cuDeviceGetName", 256, self._device)
        version = int(self._call("cuDriverGetVersion"))
        return {
            "name": name.partition(b"\0")[0].decode(),
            "capability": capability,
            "driver": f"{version // 1000}.{version % 1000 // 10}",
        }

    def allocate(self, count: int) -> int:
        return int(self._call("cuMemAlloc", count))

    def free(self, address: int) -> None:
        self._call("cuMemFree", address)

    def upload(self, address: int, content: bytes) -> None:
        self._call("cuMemcpyHtoD", address, content, len(content))

    def download(self, address: int, count: int) -> bytes:
        content = bytearray(count)
        self._call("cuMemcpyDtoH", content, address, count)
        return bytes(content)

    def copy(self, target: int, source: int, count: int) -> None:
        self._call("cuMemcpyDtoDAsync", target, source, count, self._stream)

    def clear(self, address: int, value: int, count: int) -> None:
        self._call("cuMemsetD8Async", address, value, count, self._stream)

    def wait(self) -> None:
        """Wait for all work; errors of launches are raised here."""
        self._call("cuStreamSynchronize", self._stream)

    def load(self, code: bytes, launch: Json) -> LoadedBinary:
        """Return a binary's function, ready to be launched."""
        module = self._call("cuModuleLoadData", code)
        handle = self._call("cuModuleGetFunction", module, launch["entry"].encode())
        names = self._cuda.CUfunction_attribute
        if launch["shared"] > _SHARED_BYTES:
            self._check_shared(launch["shared"])
            attribute = names.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._call("cuFuncSetAttribute", handle, attribute, launch["shared"])
        figures = []
        for name in ("CU_FUNC_ATTRIBUTE_NUM_REGS", "CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES"):
            figures.append(int(self._call("cuFuncGetAttribute", getattr(names, name), handle)))
        return LoadedBinary(module, handle, launch, *figures)

    def _check_shared(self, count: int) -> None:
        """Raise DriverError for more shared memory than a block can have on this GPU."""
        names = self._cuda.CUdevice_attribute
        attribute = names.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        limit = int(self._call("cuDeviceGetAttribute", attribute, self._device))
        if count > limit:
            raise DriverError(
                "shared memory", 0, f"a block needs {count:,} bytes, and this GPU has {limit:,}"
            )

    def unload(self, function: LoadedBinary) -> None:
        self._call("cuModuleUnload", function.module)

    def launch(self, function: LoadedBinary, grid: Sequence[int], values: Sequence[Any]) -> None:
        """Put a launch into the stream; `values` are C values in the order of the parameters."""
        launch, cuda = function.launch, self._cuda
        config = cuda.CUlaunchConfig()
        sizes = [*grid, 1, 1][:3]
        for axis, size, blocks in zip("XYZ", sizes, launch["cluster"]):
            setattr(config, f"gridDim{axis}", size * blocks)
            setattr(config, f"blockDim{axis}", 1)
        config.blockDimX = launch["threads"]
        config.sharedMemBytes = launch["shared"]
        config.hStream = self._stream
        config.attrs = self._attributes(launch)
        config.numAttrs = len(config.attrs)
        addresses = [ctypes.addressof(value) for value in values]
        array = (ctypes.c_void_p * len(addresses))(*addresses)
        self._call("cuLaunchKernelEx", config, function.handle, ctypes.addressof(array), 0)

    def _attributes(self, launch: Json) -> list[Any]:
        names = self._cuda.CUlaunchAttributeID
        attributes = []
        if launch["pdl"]:
            attribute = self._attribute(names.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            attribute.value.programmaticStreamSerializationAllowed = 1
            attributes.append(attribute)
        if launch["cooperative"]:
            attribute = self._attribute(names.CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
            attribute.value.cooperative = 1
            attributes.append(attribute)
        if launch["cluster"] != [1, 1, 1]:
            attribute = self._attribute(names.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            dimension = attribute.value.clusterDim
            dimension.x, dimension.y, dimension.z = launch["cluster"]
            attributes.append(attribute)
        return attributes

    def _attribute(self, name: Any) -> Any:
        attribute = self._cuda.CUlaunchAttribute()
        attribute.id = name
        return attribute

    def record(self, work: Callable[[], None], count: int, area: tuple[int, int]) -> TimedGraph:
        """Return a graph of `count` launches that `work` makes, each timed by itself.

        The memory `area`, an address and a number of bytes, is written before each, so that none
        finds its data in the GPU's cache.
        """
        events = []
        for _ in range(count):
            events.append((self._call("cuEventCreate", 0), self._call("cuEventCreate", 0)))
        modes = self._cuda.CUstreamCaptureMode
        mode = modes.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._call("cuStreamBeginCapture", self._stream, mode)
        try:
            for start, end in events:
                self.clear(area[0], 0, area[1])
                self._call("cuEventRecordWithFlags", start, self._stream, _EXTERNAL)
                work()
                self._call("cuEventRecordWithFlags", end, self._stream, _EXTERNAL)
        finally:
            graph = self._call("cuStreamEndCapture", self._stream)
        executable = self._call("cuGraphInstantiate", graph, 0)
        self._call("cuGraphDestroy", graph)
        return TimedGraph(executable, events)

    def replay(self, graph: TimedGraph) -> list[float]:
        """Run a graph and return the microseconds of each of its launches."""
        self._call("cuGraphLaunch", graph.executable, self._stream)
        self.wait()
        times = []
        for start, end in graph.events:
            times.append(float(self._call("cuEventElapsedTime", start, end)) * 1_000)
        return times

    def drop(self, graph: TimedGraph) -> None:
        """Free a graph and its events."""
        self._call("cuGraphExecDestroy", graph.executable)
        for pair in graph.events:
            for event in pair:
                self._call("cuEventDestroy", event)


def c_value(kind: str, value: str) -> Any:
    """Return a scalar argument as the C value that a binary reads."""
    if kind == "fp64":
        return ctypes.c_double(float.fromhex(value))
    if kind in ("fp16", "bf16"):
        form = "<e" if kind == "fp16" else "<f"
        packed = struct.pack(form, float.fromhex(value))
        return ctypes.c_uint16(int.from_bytes(packed[-2:], "little"))
    if kind.startswith("fp"):
        return ctypes.c_float(float.fromhex(value))
    number = int(value)
    if kind in _WIDE:
        return ctypes.c_uint64(number & (2**64 - 1))
    return ctypes.c_uint32(number & (2**32 - 1))
