"""The C++ standard library for NVRTC, which includes no header of it.

The CCCL of a 12.x toolkit has the device's part of the library in `cuda/std`, in the namespace
`cuda::std`. A stand-in of `<cstddef>` includes `<cuda/std/cstddef>` and makes its names visible in
`std`. Programs that compile with NVRTC at run time provide such headers in the same way.
"""

from __future__ import annotations

import os
import re

_LIBRARY = os.path.join("cuda", "std")
# The headers of C that some code names instead of their C++ counterparts.
_C_HEADERS = ("assert", "float", "limits", "math", "stddef", "stdint", "string")
# `cuda/std/climits` declares macros and no namespace, so the namespace is opened first.
_STAND_IN = """#pragma once
#include <cuda/std/{}>
namespace cuda {{ namespace std {{}} }}
namespace std {{ using namespace cuda::std; }}
"""
_ERROR = re.compile(
    r"^(?P<file>[^\s(][^\n(]*)\((?P<line>\d+)\): (?:catastrophic )?error(?: #\S+)?: "
    r"(?P<message>[^\n]+)(?P<more>(?:\n[^\n]+)*)",
    re.MULTILINE,
)
_UNDEFINED_NAME = re.compile(r'identifier "(\w+)" is undefined')
_STATIC_ASSERTION = "static assertion failed"
# Lines below an error that list the types and functions that it concerns.
_DETAIL = re.compile(r"^ *(?:argument|operand|object|return) types? (?:are|is): .*", re.MULTILINE)
_NAMESPACE = re.compile(r"\bstd\b")
_IN_LINE = re.compile(r"\bstd\s*::|\bnamespace\s+std\b")
_USING = re.compile(r"\busing\s+namespace\s+std\b")
# Names of C that a unit has under nvcc without an include: nvcc includes `cuda_runtime.h` first.
_C_NAME = re.compile(
    r"u?int(?:_fast|_least)?(?:8|16|32|64)_t|u?int(?:ptr|max)_t|ptrdiff_t|ssize_t|uint|ushort|uchar"
    r"|INFINITY|NAN|HUGE_VALF?|M_[A-Z0-9_]+|(?:FLT|DBL|LDBL)_[A-Z0-9_]+|NULL"
    r"|U?(?:CHAR|SHRT|INT|LONG|LLONG|INT(?:8|16|32|64))_(?:MIN|MAX)|CHAR_BIT|SIZE_MAX"
    r"|FILE|stderr|stdout|fprintf|exit|abort|getenv|EXIT_\w+|errno"
)


def write_stand_ins(folder: str, header_folders: list[str]) -> str:
    """Write a stand-in for each standard header that a toolkit has in `cuda/std`.

    Return their folder. The folder must be the last that the compiler searches: the toolkit's own
    headers include files of the same names that lie beside them.
    """
    stand_ins = os.path.join(folder, "standard_headers")
    os.makedirs(stand_ins, exist_ok=True)
    for header_folder in header_folders:
        library = os.path.join(header_folder, _LIBRARY)
        if not os.path.isdir(library):
            continue
        names = {}
        for name in os.listdir(library):
            if name.isalpha() or "_" in name.strip("_"):
                names[name] = name
        names.pop("detail", None)
        for name in _C_HEADERS:
            if f"c{name}" in names:
                names[f"{name}.h"] = f"c{name}"
        for name, source in names.items():
            with open(os.path.join(stand_ins, name), "w") as file:
                file.write(_STAND_IN.format(source))
    return stand_ins


def find_library_error(log: str) -> str | None:
    """Return the first error if it may be due to the stand-ins rather than the unit, else None.

    The stand-ins have fewer names than a host compiler's library, and their templates cannot be
    specialized in `std`. A later error may follow from an earlier one, so the first decides. A
    static assertion is the unit's own failure: its condition is the same with either library.
    """
    error = _ERROR.search(log)
    if error is None or error["message"].startswith(_STATIC_ASSERTION):
        return None
    lines = _read_lines(error["file"])
    line = "".join(lines[int(error["line"]) - 1 : int(error["line"])])
    missing_name = _UNDEFINED_NAME.match(error["message"])
    if missing_name is None:
        details = _DETAIL.findall(error["more"])
        texts = [error["message"], *details]
        is_due = _IN_LINE.search(line) or any(map(_NAMESPACE.search, texts))
    else:
        is_due = _C_NAME.fullmatch(missing_name[1]) or any(map(_USING.search, lines))
    return error["message"] if is_due else None


def _read_lines(file: str) -> list[str]:
    try:
        with open(file, errors="replace") as stream:
            return stream.readlines()
    except OSError:
        return []
