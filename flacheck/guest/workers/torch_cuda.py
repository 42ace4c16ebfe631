"""torch itself, speaking of a card that is not there: `torch.cuda` has one device, always ready,
and says what the real card says.

Its CPU build will do, beside a compiler too, where a package's modules are to be what they are
when they run.
"""

from __future__ import annotations

import os

import torch

_GIB = 1 << 30
_THREADS = {(7, 5): 1024, (8, 6): 1536, (8, 9): 1536, (12, 0): 1536}
_SHARED = {
    (7, 0): 96,
    (7, 5): 64,
    (8, 0): 164,
    (8, 6): 100,
    (8, 9): 100,
    (9, 0): 228,
    (10, 0): 228,
    (12, 0): 100,
}


class Properties:
    """What `get_device_properties` gives, from a row of the card table."""

    def __init__(self, card: dict) -> None:
        capability = tuple(card["capability"])
        self.name = card["gpu"]
        self.major, self.minor = capability
        self.total_memory = card["memory_gb"] * _GIB
        self.multi_processor_count = card["multiprocessors"]
        self.shared_memory_per_block = 48 * 1024
        self.shared_memory_per_block_optin = card["shared_limit"]
        self.shared_memory_per_multiprocessor = (
            _SHARED.get(capability, card["shared_limit"] // 1024) * 1024
        )
        self.regs_per_multiprocessor = 65_536
        self.max_threads_per_multi_processor = _THREADS.get(capability, 2048)
        self.max_threads_per_block = 1024
        self.warp_size = card["warp_size"]
        self.is_integrated = self.is_multi_gpu_board = 0
        self.L2_cache_size = 50 << 20
        self.gcnArchName = str(card["arch"])


class Context:
    """Stands for every context manager of torch.cuda: entering one changes nothing."""

    def __init__(self, *args, **kwargs) -> None:
        self.idx, self.prev_idx = 0, 0

    def __enter__(self):
        return self

    def __exit__(self, *_) -> bool:
        return False


class Event:
    """An event that has always happened."""

    def __init__(self, *args, **kwargs) -> None:
        self.cuda_event = 0

    def record(self, *args) -> None: ...

    def wait(self, *args) -> None: ...

    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True

    def elapsed_time(self, end) -> float:
        return 1.0


class Stream(Context):
    """A stream on which everything is already done."""

    cuda_stream = 0
    stream_id = 0
    device_index = 0
    device = torch.device("cuda", 0)

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def synchronize(self) -> None: ...

    def wait_event(self, event) -> None: ...

    def wait_stream(self, stream) -> None: ...

    def record_event(self, event=None):
        return event or Event()


class Graph:
    """A CUDA graph: its capture runs the launches, its replay has nothing left to do."""

    def __init__(self, *args, **kwargs) -> None: ...

    def capture_begin(self, *args, **kwargs) -> None: ...

    def capture_end(self) -> None: ...

    def replay(self) -> None: ...

    def reset(self) -> None: ...

    def pool(self) -> tuple:
        return (0, 0)


class Generator(torch.Generator):
    """A generator for the device that is not there; nothing is drawn from it."""

    def __new__(cls, device="cpu"):
        return super().__new__(cls, "cpu")


def _nothing(*args, **kwargs) -> None:
    return None


def _constant(value):
    return lambda *args, **kwargs: value


_SILENT = (
    "_lazy_init",
    "init",
    "synchronize",
    "empty_cache",
    "ipc_collect",
    "set_device",
    "set_stream",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
    "reset_peak_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_accumulated_memory_stats",
    "set_per_process_memory_fraction",
    "set_sync_debug_mode",
    "change_current_allocator",
)
_ZERO = (
    "current_device",
    "memory_allocated",
    "max_memory_allocated",
    "memory_reserved",
    "max_memory_reserved",
    "memory_cached",
    "max_memory_cached",
    "initial_seed",
    "get_sync_debug_mode",
    "utilization",
    "memory_usage",
    "current_blas_handle",
)
_CONTEXTS = ("device", "device_of", "stream", "StreamContext", "graph", "use_mem_pool")


def facade(card: dict) -> dict:
    """Every name of torch.cuda that is replaced, with what stands there instead."""
    properties = Properties(card)
    capability = tuple(card["capability"])
    names = dict.fromkeys(_SILENT, _nothing) | {name: _constant(0) for name in _ZERO}
    names |= {name: type(name, (Context,), {}) for name in _CONTEXTS}
    names |= {
        "is_available": _constant(True),
        "is_initialized": _constant(True),
        "device_count": _constant(1),
        "get_device_capability": _constant(capability),
        "get_device_name": _constant(card["gpu"]),
        "get_device_properties": _constant(properties),
        "get_arch_list": _constant([f"sm_{capability[0]}{capability[1]}"]),
        "is_bf16_supported": _constant(card["bf16"]),
        "is_tf32_supported": _constant(capability >= (8, 0)),
        "is_current_stream_capturing": _constant(False),
        "can_device_access_peer": _constant(False),
        "mem_get_info": _constant((properties.total_memory, properties.total_memory)),
        "memory_stats": lambda *_: {},
        "memory_summary": _constant(""),
        "get_rng_state": lambda *_: torch.zeros(16, dtype=torch.uint8),
        "get_rng_state_all": lambda *_: [torch.zeros(16, dtype=torch.uint8)],
        "current_stream": lambda *_: Stream(),
        "default_stream": lambda *_: Stream(),
        "graph_pool_handle": _constant((0, 0)),
        "make_graphed_callables": lambda callables, *_, **__: callables,
        "Stream": Stream,
        "ExternalStream": Stream,
        "Event": Event,
        "CUDAGraph": Graph,
    }
    return names


def leave_functions_uncompiled() -> None:
    """torch.compile leaves a function as it is: what it would launch are kernels of its own making.
    So does torch.jit.script, as with PYTORCH_JIT=0: its interpreter asks for CUDA by itself.
    """
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    torch.jit._state.disable()
    torch.compile = _undecorated
    torch.compiler.disable = _undecorated


def _undecorated(function=None, *args, **kwargs):
    return function if function is not None else lambda function: function


def turn(card: dict) -> None:
    """From now on torch speaks of this card."""
    for name, value in facade(card).items():
        setattr(torch.cuda, name, value)
    for module in ("random", "memory", "graphs", "streams"):
        for name, value in facade(card).items():
            if hasattr(getattr(torch.cuda, module, None), name):
                setattr(getattr(torch.cuda, module), name, value)
    for name in ("range_push", "range_pop", "range_start", "range_end", "mark", "range"):
        setattr(torch.cuda.nvtx, name, Context if name == "range" else _nothing)
    torch.version.cuda = torch.version.cuda or "12.8"
    torch.Generator = Generator
    _install_accelerator()


def _install_accelerator() -> None:
    accelerator = torch.accelerator
    accelerator.is_available = _constant(True)
    accelerator.device_count = _constant(1)
    accelerator.current_accelerator = _constant(torch.device("cuda"))
    accelerator.current_stream = lambda *_: Stream()
    accelerator.current_device_index = _constant(0)
    accelerator.set_device_index = accelerator.synchronize = _nothing
