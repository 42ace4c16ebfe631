"""Where tuned kernels come from: our own, a matrix's launches, a launches file, a package. One file a source.

Each yields `Found`: what a source holds of one kernel under one toolchain on one target.
"""

from __future__ import annotations

from flacheck.autotune.sources.base import Asked, Found, Gathered

__all__ = ["Asked", "Found", "Gathered", "gather"]


def gather(asked: Asked) -> Gathered:
    """All that the question is about, from the one source that it names."""
    from flacheck.autotune.sources import captured, matrices, recorded

    if asked.package is not None:
        return captured.gather(asked)
    if asked.file is not None:
        return recorded.gather(asked)
    return matrices.gather(asked)
