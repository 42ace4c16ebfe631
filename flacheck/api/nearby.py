"""The packages with Triton kernels that are installed beside flacheck."""

from __future__ import annotations

from pathlib import Path

from flacheck.subjects.inputs import nearby
from flacheck.subjects.inputs.nearby import Surroundings


def look(folder: Path) -> Surroundings | None:
    """Return the packages with kernels that are installed here, or None."""
    return nearby.look(folder)
