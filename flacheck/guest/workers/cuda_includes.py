"""Which files a unit may read, for a compiler that does not say which it reads: its sources are
searched for what they include before they are compiled.

Nothing is preprocessed, so a file counts although a condition leaves it out, or its name stands in
a comment that begins lines before: a unit may be refused for no reason, and none is let through.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence

from .cuda_units import UnitRefused

# A line goes on after a backslash; compilers overlook blanks behind it.
_SPLICE = re.compile(r"\\[ \t]*\r?\n")
_TRIGRAPHS = {"??=": "#", "??/": "\\"}
_COMMENT = r"(?:[ \t\v\f]|/\*.*?\*/)*"
_DIRECTIVE = re.compile(
    rf"(?:#|%:){_COMMENT}(?:include_next|include|import|embed)\b{_COMMENT}([^\n]*)", re.DOTALL
)
_NAMED = re.compile(r'"([^"\n]+)"|<([^>\n]+)>')
# A file of a project is rarely larger than some hundred kilobytes, and a unit reads a few thousand.
_LARGEST = 8 << 20
_MOST = 20_000


def check_includes(
    unit: str, searched: Sequence[str], allowed: Iterable[str], trusted: Sequence[str]
) -> None:
    """Raises UnitRefused where the unit, or a file that it includes, includes one that lies in none
    of the `allowed` folders. `searched` are the include folders in their order; files in `trusted`
    folders are not searched themselves."""
    roots = [os.path.realpath(folder) for folder in allowed]
    known = [os.path.realpath(folder) for folder in trusted]
    first = os.path.abspath(unit)
    if not _lies_in(first, roots):
        raise UnitRefused(
            f"the unit includes {os.path.basename(unit)}, which is in none of its folders: "
            "it was not compiled"
        )
    waiting, seen = [first], {first}
    while waiting:
        file = waiting.pop()
        for name in _included(file):
            for place in _places(name, file, searched):
                path = os.path.normpath(place)
                # Another folder may come first for the compiler: each that has the file counts.
                if path in seen or not os.path.exists(path):
                    continue
                seen.add(path)
                if not _lies_in(path, roots):
                    raise UnitRefused(
                        f"the unit includes {name}, which is in none of its folders: "
                        "it was not compiled"
                    )
                if not _lies_in(path, known):
                    waiting.append(path)
        if len(seen) > _MOST:
            raise UnitRefused(f"the unit includes {_MOST}, or more, files: it was not compiled")


def _included(file: str) -> Iterator[str]:
    """The names that a file includes."""
    short = os.path.basename(file)
    if not os.path.isfile(file):
        raise UnitRefused(f"the unit includes {short}, which is no file: it was not compiled")
    try:
        with open(file, encoding="utf-8-sig", errors="replace") as opened:
            text = opened.read(_LARGEST)
    except PermissionError:
        raise UnitRefused(
            f"the unit includes {short}, which is in none of its folders: it was not compiled"
        ) from None
    if "\0" in text or len(text) == _LARGEST:
        # In another encoding the compiler might read what is not found here.
        raise UnitRefused(f"the unit includes {short}, which is no text: it was not compiled")
    for written, meant in _TRIGRAPHS.items():
        text = text.replace(written, meant)
    text = _SPLICE.sub("", text)
    for match in _DIRECTIVE.finditer(text):
        # A directive begins its line, but for comments.
        before = text[: match.start()].rpartition("\n")[2].strip()
        if before and not before.endswith("*/"):
            continue
        named = _NAMED.match(match[1].lstrip())
        if named is None:
            said = match[1].split()[:1] or ["nothing"]
            raise UnitRefused(
                f"the unit includes {said[0][:60]}, a macro: only the preprocessor knows which "
                "file that is, so the unit was not compiled"
            )
        yield named[1] or named[2]


def _places(name: str, includer: str, searched: Sequence[str]) -> Iterator[str]:
    if name.startswith("/"):
        yield name
        return
    yield os.path.join(os.path.dirname(includer), name)
    for folder in searched:
        yield os.path.join(folder, name)


def _lies_in(path: str, roots: Iterable[str]) -> bool:
    """Whether a file lies there, wherever links lead to it from."""
    real = os.path.realpath(path)
    return any(real.startswith(root + os.sep) for root in roots)
