"""The files that a unit may read, for a compiler that does not list the files it reads.

The unit's sources are searched for includes before they are compiled. Nothing is preprocessed: a
file also counts if a condition excludes it, or if its name is in a comment that started on an
earlier line. So a unit may be refused without need, but none is accepted wrongly.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence

from .cuda_units import UnitRefused

# A line continues after a backslash; compilers ignore blanks behind it.
_SPLICE = re.compile(r"\\[ \t]*\r?\n")
_TRIGRAPHS = {"??=": "#", "??/": "\\"}
_COMMENT = r"(?:[ \t\v\f]|/\*.*?\*/)*"
_DIRECTIVE = re.compile(
    rf"(?:#|%:){_COMMENT}(?:include_next|include|import|embed)\b{_COMMENT}([^\n]*)", re.DOTALL
)
_NAME = re.compile(r'"([^"\n]+)"|<([^>\n]+)>')
# A project's file rarely exceeds some hundred kilobytes, and a unit reads a few thousand files.
_LARGEST = 8 << 20
_MOST = 20_000


def check_includes(
    unit: str,
    search_folders: Sequence[str],
    allowed_folders: Iterable[str],
    trusted_folders: Sequence[str],
) -> None:
    """Raise UnitRefused if the unit includes a file outside the allowed folders.

    That also covers files that its included files include. `search_folders` are the include folders
    in their order. Files in `trusted_folders` are not searched themselves.
    """
    roots = [os.path.realpath(folder) for folder in allowed_folders]
    trusted_roots = [os.path.realpath(folder) for folder in trusted_folders]
    first = os.path.abspath(unit)
    if not _lies_in(first, roots):
        raise UnitRefused(
            f"the unit includes {os.path.basename(unit)}, which is in none of its folders: "
            "it was not compiled"
        )
    waiting, paths = [first], {first}
    while waiting:
        file = waiting.pop()
        for name in _included_names(file):
            for candidate in _places(name, file, search_folders):
                path = os.path.normpath(candidate)
                # The compiler may use another folder first, so every folder with the file counts.
                if path in paths or not os.path.exists(path):
                    continue
                paths.add(path)
                if not _lies_in(path, roots):
                    raise UnitRefused(
                        f"the unit includes {name}, which is in none of its folders: "
                        "it was not compiled"
                    )
                if not _lies_in(path, trusted_roots):
                    waiting.append(path)
        if len(paths) > _MOST:
            raise UnitRefused(f"the unit includes {_MOST}, or more, files: it was not compiled")


def _included_names(file: str) -> Iterator[str]:
    """Yield the names that a file includes."""
    short = os.path.basename(file)
    if not os.path.isfile(file):
        raise UnitRefused(f"the unit includes {short}, which is not a file: it was not compiled")
    try:
        with open(file, encoding="utf-8-sig", errors="replace") as stream:
            text = stream.read(_LARGEST)
    except PermissionError:
        raise UnitRefused(
            f"the unit includes {short}, which is in none of its folders: it was not compiled"
        ) from None
    if "\0" in text or len(text) == _LARGEST:
        # In another encoding the compiler might read includes that this search misses.
        raise UnitRefused(f"the unit includes {short}, which is not text: it was not compiled")
    for trigraph, character in _TRIGRAPHS.items():
        text = text.replace(trigraph, character)
    text = _SPLICE.sub("", text)
    for match in _DIRECTIVE.finditer(text):
        # Only comments may precede a directive on its line.
        before = text[: match.start()].rpartition("\n")[2]
        before = before.strip()
        if before and not before.endswith("*/"):
            continue
        name_match = _NAME.match(match[1].lstrip())
        if name_match is None:
            words = match[1].split()[:1] or ["nothing"]
            raise UnitRefused(
                f"the unit includes {words[0][:60]}, a macro: only the preprocessor can expand it, "
                "so the unit was not compiled"
            )
        yield name_match[1] or name_match[2]


def _places(name: str, includer: str, search_folders: Sequence[str]) -> Iterator[str]:
    if name.startswith("/"):
        yield name
        return
    yield os.path.join(os.path.dirname(includer), name)
    for folder in search_folders:
        yield os.path.join(folder, name)


def _lies_in(path: str, roots: Iterable[str]) -> bool:
    """Return True if a file lies in one of the folders, links resolved."""
    real = os.path.realpath(path)
    return any(real.startswith(root + os.sep) for root in roots)
