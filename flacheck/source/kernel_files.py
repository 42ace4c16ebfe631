"""The number of Triton kernels in files, counted in their text alone.

Files are not imported or parsed, because an environment holds thousands of them.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from flacheck.source import syntax

_JIT = re.compile(rb"^[ \t]*@triton\.jit\b", re.MULTILINE)
# `@jit` alone may belong to numba.
_BARE_JIT = re.compile(rb"^[ \t]*@jit\b", re.MULTILINE)
_JIT_IMPORT = re.compile(rb"^from triton(?:\.\w+)* import [^\n]*\bjit\b", re.MULTILINE)
# Longer files are generated tables without kernels.
_LARGEST = 1_000_000


def kernels_in(files: Iterable[Path]) -> int:
    """Count the Triton kernels that Python files define; skip files that cannot be read."""
    return sum(_kernels(syntax.content(file)) for file in files)


def _kernels(text: bytes) -> int:
    if b"triton" not in text or len(text) > _LARGEST:
        return 0
    kernels = len(_JIT.findall(text))
    if _JIT_IMPORT.search(text):
        kernels += len(_BARE_JIT.findall(text))
    return kernels
