"""Positions in the program: the line of the innermost own function, and the expression on it.

Functions of torch and of libraries that only pass tensors on are skipped.
"""

from __future__ import annotations

import itertools
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any

_GUEST = __name__.partition(".")[0]
# Packages between a program's own line and the operation; none of these chooses a dtype.
_PASSING = {"torch", "numpy", "triton", "einops", "contextlib", "functools", "threading", _GUEST}


@dataclass(frozen=True)
class SourcePlace:
    """An expression in a file, with lines from 1 and columns from 0 in bytes.

    Without columns (Python 3.10 and older) it is the whole line.
    """

    file: str
    line: int
    end_line: int | None = None
    column: int | None = None
    end_column: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "line": self.line,
            "end_line": self.end_line,
            "column": self.column,
            "end_column": self.end_column,
        }


def here() -> SourcePlace | None:
    """Return the current place in the program; None within torch's own backward pass."""
    frame = next(_own(sys._getframe(1)), None)
    if frame is None:
        return None
    return place_of(frame, frame.f_lasti, frame.f_lineno)


def is_direct() -> bool:
    """Return whether the program itself calls the operation, not a module or a library.

    If so, the operation's operands are those of the expression.
    """
    for frame, _ in traceback.walk_stack(sys._getframe(1)):
        module = frame.f_globals.get("__name__") or "?"
        if _is_own(frame):
            return True
        if module.startswith("torch.nn.modules") or module.partition(".")[0] in ("einops",):
            return False
    return False


def of_error(error: BaseException) -> tuple[SourcePlace, FrameType] | None:
    """Return the place of an error with its function's frame; None for an error within torch."""
    frames = [step for step in _steps(error.__traceback__) if _is_own(step.tb_frame)]
    if not frames:
        return None
    last = frames[-1]
    return place_of(last.tb_frame, last.tb_lasti, last.tb_lineno), last.tb_frame


def _steps(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _own(innermost: FrameType) -> Iterator[FrameType]:
    for frame, _ in traceback.walk_stack(innermost):
        if _is_own(frame):
            yield frame


def _is_own(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__") or "?"
    # The boot text that started the guest does not come from a file.
    if frame.f_code.co_filename.startswith("<"):
        return False
    return module.partition(".")[0] not in _PASSING


def place_of(frame: FrameType, instruction: int, line: int) -> SourcePlace:
    code = frame.f_code
    if not hasattr(code, "co_positions"):
        return SourcePlace(code.co_filename, line)
    positions = next(itertools.islice(code.co_positions(), instruction // 2, None))
    first, last, column, end_column = positions
    if first is None or column is None:
        return SourcePlace(code.co_filename, line)
    return SourcePlace(code.co_filename, first, last, column, end_column)
