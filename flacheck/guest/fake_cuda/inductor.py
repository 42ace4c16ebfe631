"""torch.compile on the imitated card: Inductor writes its kernels, and none is compiled or run.

Dynamo, AOTAutograd and Inductor run as on the card. The code that Inductor writes calls the kernels
of its `CachingAutotuner`, which compiles them itself; the recorder takes its place. All of Inductor
runs in the program's process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

from ..engine.driver import constant, nothing

# Inductor may compile in a pool of processes, which do not have the imitated card.
_ENVIRONMENT = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
_DEVICES = "torch._dynamo.device_interface"
_RULES = "torch._dynamo.trace_rules"
_PADDING = "torch._inductor.fx_passes.pad_mm"
_BENCHMARKS = "torch._inductor.runtime.benchmarking"
_HELPERS = "torch._inductor.runtime.triton_helpers"
_GRAPHS = "torch._inductor.cudagraph_utils"
_SELECTION = "torch._inductor.select_algorithm"
# Milliseconds that a library's kernel takes here. Inductor's own templates take 1 ms, so it chooses
# a template and writes the kernels that are fused into it.
_LIBRARY_MS = 2.0


def install() -> None:
    """Make torch.compile work on the imitated card; call this after the import of torch."""
    os.environ.update(_ENVIRONMENT)
    # Dynamo and Inductor have fake tensors of their own, which must not use the device either.
    FakeTensorMode.avoid_device_init = True
    guards = torch._C._dynamo.guards
    guards._empty_strided_cuda = _empty_strided
    guards._reinterpret_tensor = _reinterpret
    # It reads the address of memory that does not exist.
    guards.copy_if_misaligned = _return_tensor


def actions() -> dict[str, Callable[[], None]]:
    """Return the functions to call after the import of the compiler's modules, by module."""
    return {
        _RULES: _skip_own_frames,
        _DEVICES: _give_stream,
        _HELPERS: _leave_driver,
        _PADDING: _leave_modes,
        _SELECTION: _prefer_templates,
        _GRAPHS: _leave_out_graphs,
    }


def _skip_own_frames() -> None:
    """Keep the compiler from frames of flacheck's functions, which stand for torch's own in C++.

    The compiler would compile them where an uncompiled part of a program calls them. In a compiled
    part it may inline them.
    """
    rules: Any = sys.modules[_RULES]
    room = __name__.rpartition(".")[0]
    for name in (room, room.rpartition(".")[0] + ".recorder"):
        rules.add(name)
    if hasattr(rules, "BUILTIN_INLINE_WHEN_CALLED"):
        rules.BUILTIN_INLINE_WHEN_CALLED.add(os.path.dirname(__file__))


def _leave_modes() -> None:
    """Make a benchmark leave the modes, which can be entered again, not torch's dispatch."""
    setattr(sys.modules[_PADDING], "no_dispatch", _disable_current_modes)  # noqa: B010


def _give_stream() -> None:
    sys.modules[_DEVICES].CudaInterface.get_raw_stream = staticmethod(constant(0))


def _leave_driver() -> None:
    """Keep Inductor's kernels from a search for a driver: the imitated card's is in use."""
    setattr(sys.modules[_HELPERS], "set_driver_to_gpu", nothing)  # noqa: B010


def _leave_out_graphs() -> None:
    """Make Inductor launch its kernels one by one, without a CUDA graph."""
    reason = constant("the card is imitated")
    setattr(sys.modules[_GRAPHS], "check_lowering_disable_cudagraph", reason)  # noqa: B010


def _prefer_templates() -> None:
    caller: Any = getattr(sys.modules[_SELECTION], "ExternKernelCaller")  # noqa: B009
    caller.benchmark = constant(_LIBRARY_MS)


def _empty_strided(size: Any, stride: Any, dtype: torch.dtype) -> Any:
    return torch.empty_strided(size, stride, dtype=dtype, device="cuda")


def _reinterpret(tensor: Any, size: Any, stride: Any, offset: int = 0) -> Any:
    return torch.as_strided(tensor, size, stride, tensor.storage_offset() + offset)


def _return_tensor(tensor: Any) -> Any:
    return tensor
