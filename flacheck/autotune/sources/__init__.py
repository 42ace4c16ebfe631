"""Where tuned kernels come from: our own, a matrix's launches, a launches file, a package. One file
a source.

Each gathers `Tuned`: a launch of each kernel under each toolchain on each target.
"""

from __future__ import annotations

from flacheck.autotune.sources.base import Asked, Gathered

__all__ = ["Asked", "Gathered", "gather"]


def gather(asked: Asked) -> Gathered:
    """All that the question is about, from the one source that it names."""
    from flacheck.autotune.sources import captured, matrices, recorded

    if asked.package is not None:
        return captured.gather(asked)
    if asked.file is not None:
        return recorded.gather(asked)
    return matrices.gather(asked)
