"""Which files define Triton kernels, told from their text alone: nothing is imported or parsed, for
an environment holds thousands of files."""

import re
from collections.abc import Iterable
from pathlib import Path

from flacheck.source import syntax

_JIT = re.compile(rb"^[ \t]*@triton\.jit\b", re.MULTILINE)
# `@jit` alone may be numba's.
_BARE_JIT = re.compile(rb"^[ \t]*@jit\b", re.MULTILINE)
_IMPORTED_JIT = re.compile(rb"^from triton(?:\.\w+)* import [^\n]*\bjit\b", re.MULTILINE)
# Generated tables of megabytes hold no kernels.
_LARGEST = 1_000_000


def kernels_in(files: Iterable[Path]) -> int:
    """How many Triton kernels Python files define; a file that cannot be read has none."""
    return sum(_kernels(syntax.content(file)) for file in files)


def _kernels(text: bytes) -> int:
    if b"triton" not in text or len(text) > _LARGEST:
        return 0
    kernels = len(_JIT.findall(text))
    if _IMPORTED_JIT.search(text):
        kernels += len(_BARE_JIT.findall(text))
    return kernels
