"""A line of a source file, relative to the user's project where possible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flacheck.model.kernel import Kernel


@dataclass(frozen=True)
class SourceLocation:
    """A line (from 1) of a file, and the function there; file and line are None if unknown.

    The path is relative to the project, or to the package that contains the file.
    """

    file: str | None
    line: int | None
    name: str | None = None


Locate = Callable[[Kernel], SourceLocation]


def locate_nowhere(kernel: Kernel) -> SourceLocation:
    """Return the name of a kernel whose file is unknown."""
    return SourceLocation(None, None, kernel.name)
