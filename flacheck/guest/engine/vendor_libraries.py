"""Stand-ins for the vendor libraries behind Triton's bindings, on an imitated card.

cuBLAS multiplies nothing, and the profiler measures nothing. Neither launches kernels of the
program.
"""

from __future__ import annotations

import sys
from typing import Any

from .driver import nothing

# The extension module behind `triton.profiler`.
PROFILER = "triton._C.libproton"


class NoBlas:
    """A stand-in for a handle of cuBLAS."""

    __init__ = nothing

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return nothing


def leave_out_blas() -> None:
    """Replace cuBLAS; call this after the import of Triton.

    Releases before 3.1 do not bind cuBLAS.
    """
    library = getattr(sys.modules.get("triton._C.libtriton"), "nvidia", None)
    blas: Any = getattr(library, "cublas", None)
    if hasattr(blas, "CublasLt"):
        blas.CublasLt = NoBlas


def leave_out_profiler() -> None:
    """Replace the profiler's sessions; call this after the import of its extension."""
    profiler = getattr(sys.modules[PROFILER], "proton", None)
    for name in dir(profiler):
        # Triton derives from its classes, so they stay.
        function = getattr(profiler, name)
        if not name.startswith("_") and callable(function) and not isinstance(function, type):
            setattr(profiler, name, _session)


def _session(*args: object, **kwargs: object) -> int:
    """Return the index of the first session or scope."""
    return 0
