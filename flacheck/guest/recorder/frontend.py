"""Triton's front end as a check of launches: its setup, and its errors in a comparable form."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from typing import Any

from ..engine import releases
from ..workers.removed_api import removed_api


def set_up() -> None:
    """Prepare the front end; call this once before the first check."""
    # While Triton's API is traced, `triton.language` is not a plain module. Kernels that read it
    # as a global would be rejected.
    os.environ["TRITON_ALLOW_NON_CONSTEXPR_GLOBALS"] = "1"
    releases.skip_library_hash("")
    releases.end_before_stages()
    releases.watch_front_end(_note_removed_api)
    _check_assembly()


def argument_error(error: Exception | None) -> Exception | None:
    """Return the error if other arguments of the launch might avoid it, else None."""
    if error is None:
        return None
    if getattr(error, "lacks", None):
        # The release has removed an API that the kernel uses: no argument helps.
        return None
    if not _is_source_error(error):
        return None
    return error


def is_about_none(error: BaseException | None) -> bool:
    """Return True if the root of an error is the lookup of an attribute of None."""
    while error is not None:
        if isinstance(error, AttributeError) and error.name is not None and error.obj is None:
            return True
        error = error.__cause__ or error.__context__
    return False


def last_message(error: BaseException) -> str:
    """Return the last line of the message of an error's root cause."""
    while error.__cause__ is not None:
        error = error.__cause__
    message = str(getattr(error, "error_message", None) or error).strip()
    if not message:
        # A bare `assert` in the compiler.
        return type(error).__name__
    return message.splitlines()[-1]


def _check_assembly() -> None:
    """Make the front end refuse inline assembly with too few or too many registers.

    Triton itself aborts in the compiler, where nothing can tell that a dtype was inferred.
    """
    import triton.language as tl

    call = tl.inline_asm_elementwise

    @functools.wraps(call)
    def checked(
        asm: Any, constraints: Any, args: Any, dtype: Any, is_pure: Any, pack: Any, **more: Any
    ) -> Any:
        inputs = 0
        for constraint in str(getattr(constraints, "value", constraints)).split(","):
            inputs += not constraint.strip().startswith(("=", "~"))
        needed = _registers(args, int(getattr(pack, "value", pack)))
        if needed not in (None, inputs):
            text = f"the operands of the assembly fill {needed} registers"
            raise ValueError(f"{text}, and its constraints name {inputs}")
        return call(asm, constraints, args, dtype, is_pure, pack, **more)

    tl.inline_asm_elementwise = checked


def _registers(operands: Iterable[Any], pack: int) -> int | None:
    """Return how many registers of 32 bits or more hold `pack` elements of each operand."""
    registers = 0
    for operand in operands:
        bits = getattr(getattr(operand, "dtype", None), "primitive_bitwidth", None)
        if not bits:
            return None
        elements = min(max(1, 32 // max(8, bits)), pack)
        registers += -(-pack // elements)
    return registers


def _note_removed_api(error: BaseException) -> None:
    """Attach the removed API to an error, before the compiler strips the error's frames."""
    error.lacks = removed_api(error)  # type: ignore[attr-defined]


def _is_source_error(error: Exception) -> bool:
    """Return True if the error is about a line of a kernel, not about how it was called."""
    return hasattr(error, "node") and hasattr(error, "src")
