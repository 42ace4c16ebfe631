"""What Triton's own bindings ask of the vendor's libraries, where there is no card: cuBLAS
multiplies nothing, and the profiler measures nothing. Neither launches kernels of the program."""

from __future__ import annotations

import sys
from typing import Any

from .driver import nothing

# The extension module behind `triton.profiler`.
PROFILER = "triton._C.libproton"


class NoBlas:
    """Stands for a handle of cuBLAS."""

    __init__ = nothing

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return nothing


def leave_out_blas() -> None:
    """To be called once Triton is imported; releases before 3.1 bind no cuBLAS."""
    library = getattr(sys.modules.get("triton._C.libtriton"), "nvidia", None)
    blas: Any = getattr(library, "cublas", None)
    if hasattr(blas, "CublasLt"):
        blas.CublasLt = NoBlas


def leave_out_profiler() -> None:
    """To be called once the profiler's extension is imported: its sessions count nothing."""
    profiler = getattr(sys.modules[PROFILER], "proton", None)
    for name in dir(profiler):
        # Not its classes, from which Triton derives.
        offered = getattr(profiler, name)
        if not name.startswith("_") and callable(offered) and not isinstance(offered, type):
            setattr(profiler, name, _session)


def _session(*args: object, **kwargs: object) -> int:
    """The first session, or the first scope."""
    return 0
