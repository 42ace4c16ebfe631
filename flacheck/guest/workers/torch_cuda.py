"""torch with an imitated card: `torch.cuda` has one device, always ready.

The device has the properties of the real card. torch's CPU build suffices. A compile worker uses
this too, where a package's modules must be what they are at run time.
"""

from __future__ import annotations

import logging
import os
from typing import Any

import torch

from ..engine.driver import constant, nothing
from ..engine.messages import CardRow

# Replacements by name.
Names = dict[str, Any]
_LOG = logging.getLogger("flacheck")
# Holds an item once the warning about torch.compile was logged.
_warnings: list[bool] = []
_GIB = 1 << 30
# From the CUDA C++ Programming Guide's table of compute capabilities: threads of a multiprocessor
# if they are not 2048, and KiB of its shared memory.
_THREADS: dict[tuple[int, ...], int] = {(7, 5): 1024, (8, 6): 1536, (8, 9): 1536, (12, 0): 1536}
_SHARED: dict[tuple[int, ...], int] = {(7, 0): 96, (7, 5): 64, (8, 0): 164, (8, 6): 100}
_SHARED |= {(8, 9): 100, (9, 0): 228, (10, 0): 228, (12, 0): 100}
# Functions of torch.cuda that return None, those that return 0, and its context managers.
_SILENT = """
_lazy_init init synchronize empty_cache ipc_collect set_device set_stream manual_seed
manual_seed_all seed seed_all set_rng_state set_rng_state_all reset_peak_memory_stats
reset_max_memory_allocated reset_max_memory_cached reset_accumulated_memory_stats
set_per_process_memory_fraction set_sync_debug_mode change_current_allocator
""".split()
_ZERO = """
current_device memory_allocated max_memory_allocated memory_reserved max_memory_reserved
memory_cached max_memory_cached initial_seed get_sync_debug_mode utilization memory_usage
current_blas_handle _exchange_device _maybe_exchange_device
""".split()
_CONTEXTS = "device device_of stream StreamContext graph use_mem_pool".split()


class DeviceProperties:
    """The result of `get_device_properties`."""

    def __init__(self, card: CardRow) -> None:
        capability = tuple(card["capability"])
        shared_kib = _SHARED.get(capability, card["shared_limit"] // 1024)
        self.name = card["gpu"]
        self.major, self.minor = capability
        self.total_memory = card["memory_gb"] * _GIB
        self.multi_processor_count = card["multiprocessors"]
        self.shared_memory_per_block = 48 * 1024
        self.shared_memory_per_block_optin = card["shared_limit"]
        self.shared_memory_per_multiprocessor = shared_kib * 1024
        self.regs_per_multiprocessor = 65_536
        self.max_threads_per_multi_processor = _THREADS.get(capability, 2048)
        self.max_threads_per_block = 1024
        self.warp_size = card["warp_size"]
        self.is_integrated = self.is_multi_gpu_board = 0
        # The H100's size, because the table of cards has none.
        self.L2_cache_size = 50 << 20
        self.gcnArchName = str(card["arch"])


class NullContext:
    """A stand-in for every context manager of torch.cuda; it changes nothing."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        self.idx, self.prev_idx = 0, 0

    def __enter__(self) -> NullContext:
        return self

    def __exit__(self, *_: object) -> None: ...


class Event:
    """An event that has always happened."""

    cuda_event = 0
    __init__ = record = wait = synchronize = nothing
    query = constant(True)
    # In ms: programs repeat a slow launch less often.
    elapsed_time = constant(1000.0)


class Stream(NullContext):
    """A stream on which all work is done."""

    cuda_stream = stream_id = device_index = 0
    device = torch.device("cuda", 0)
    synchronize = wait_event = wait_stream = nothing
    query = constant(True)
    is_capturing = constant(False)

    def record_event(self, event: Event | None = None) -> Event:
        return event or Event()


class CudaGraph:
    """A CUDA graph: its capture runs the launches, its replay does nothing."""

    __init__ = capture_begin = capture_end = replay = reset = nothing
    pool = constant((0, 0))


class Generator(torch.Generator):
    """A generator for the imitated device, from which nothing is drawn.

    On the card its state is a seed and an offset, which programs read and advance.
    """

    _state: torch.Tensor | None = None

    def __new__(cls, device: object = "cpu") -> Generator:
        generator: Generator = super().__new__(cls, "cpu")
        if str(device).startswith("cuda"):
            generator._state = torch.zeros(16, dtype=torch.uint8)
        return generator

    def get_state(self) -> torch.Tensor:
        if self._state is None:
            return super().get_state()
        return torch.zeros(16, dtype=torch.uint8)

    def set_state(self, new_state: torch.Tensor) -> torch.Generator:
        if self._state is None:
            return super().set_state(new_state)
        return self


def facade(card: CardRow) -> Names:
    """Return the replacement of each name of torch.cuda that is replaced."""
    properties = DeviceProperties(card)
    capability = tuple(card["capability"])
    names: Names = {}
    # A separate function for each name: torch's compiler rejects one function with two rules.
    for name in _SILENT:
        names[name] = constant(None)
    for name in _ZERO:
        names[name] = constant(0)
    for name in _CONTEXTS:
        names[name] = type(name, (NullContext,), {})
    return names | {
        "is_available": constant(True),
        "is_initialized": constant(True),
        "device_count": constant(1),
        "get_device_capability": constant(capability),
        "get_device_name": constant(card["gpu"]),
        "get_device_properties": constant(properties),
        "get_arch_list": constant([f"sm_{capability[0]}{capability[1]}"]),
        "is_bf16_supported": constant(card["bf16"]),
        "is_tf32_supported": constant(capability >= (8, 0)),
        "is_current_stream_capturing": constant(False),
        "can_device_access_peer": constant(False),
        "mem_get_info": constant((properties.total_memory, properties.total_memory)),
        "memory_stats": lambda *_: {},
        "memory_summary": constant(""),
        "get_rng_state": lambda *_: torch.zeros(16, dtype=torch.uint8),
        "get_rng_state_all": lambda *_: [torch.zeros(16, dtype=torch.uint8)],
        "current_stream": lambda *_: Stream(),
        "default_stream": lambda *_: Stream(),
        "graph_pool_handle": constant((0, 0)),
        "make_graphed_callables": lambda callables, *_, **__: callables,
        "Stream": Stream,
        "ExternalStream": Stream,
        "Event": Event,
        "CUDAGraph": CudaGraph,
    }


def disable_torchscript() -> None:
    """Make torch.jit.script return functions unchanged, as with PYTORCH_JIT=0.

    TorchScript's interpreter uses CUDA directly.
    """
    torch.jit._state.disable()


def leave_functions_uncompiled() -> None:
    """Make torch.compile return functions unchanged: Inductor's kernels are not the program's."""
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    torch.compile = _skip_compile
    torch.compiler.disable = _return_function


def _return_function(function: Any = None, *args: object, **kwargs: object) -> Any:
    if function is None:
        return lambda decorated: decorated
    return function


def _skip_compile(model: Any = None, *args: object, **kwargs: object) -> Any:
    """Return the model unchanged, in place of torch.compile; warn once."""
    if not _warnings:
        _warnings.append(True)
        _LOG.warning(
            "torch.compile leaves functions as they are on the imitated card: the kernels that "
            "torch's Inductor would make of them are not recorded"
        )
    return _return_function(model, *args, **kwargs)


def _run_jiterator_kernel(
    code: str,
    name: str,
    by_reference: bool,
    outputs: int,
    tensors: Any,
    numbers: object,
) -> Any:
    """Return the result of torch.cuda.jiterator: elementwise, in the tensors' common dtype."""
    first, *others = tensors
    results = []
    for _ in range(outputs):
        result = torch.empty_like(first)
        for tensor in others:
            result = result + tensor
        results.append(result)
    if outputs == 1:
        return results[0]
    return tuple(results)


def turn(card: CardRow) -> None:
    """Make torch use this card from now on."""
    names = facade(card)
    names_of_modules = ("random", "memory", "graphs", "streams")
    modules = [getattr(torch.cuda, name, None) for name in names_of_modules]
    for name, value in names.items():
        setattr(torch.cuda, name, value)
        # Functions are defined in one of these modules and used there under the same name.
        for module in modules:
            if hasattr(module, name):
                setattr(module, name, value)
    for name in ("range_push", "range_pop", "range_start", "range_end", "mark"):
        setattr(torch.cuda.nvtx, name, constant(None))
    torch.cuda.nvtx.range = NullContext
    torch.version.cuda = torch.version.cuda or "12.8"
    torch._C._cuda_jiterator_compile_and_launch_kernel = _run_jiterator_kernel
    # Modules that were imported earlier hold torch's own function, which calls this one.
    torch._C._cuda_synchronize = constant(None)
    # Launchers of packages and of Inductor import it; a torch without CUDA lacks it.
    torch._C._cuda_getCurrentRawStream = constant(0)
    torch.Generator = Generator
    torch.cuda.default_generators = (Generator("cuda"),)
    accelerator = torch.accelerator
    accelerator.is_available = constant(True)
    accelerator.device_count = constant(1)
    accelerator.current_accelerator = constant(torch.device("cuda"))
    accelerator.current_stream = lambda *_: Stream()
    accelerator.current_device_index = constant(0)
    accelerator.set_device_index = constant(None)
    accelerator.synchronize = constant(None)
