"""flacheck's own CUDA C++ kernels: the declarations of the files in `kernels/cuda/`.

A file begins with a comment that holds YAML after the word `flacheck`: its `operator`, the `shapes`
to compile it in, and its `units`, each with a `form` and `defines` (`-D`). `"{dtype}"` and
`"{HEAD_DIM}"` stand for the dtype and for an entry of the shape.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from flacheck import files
from flacheck.errors import MatrixError
from flacheck.model import Kernel, Launch, Unit, digest
from flacheck.model.launch import FormError, LaunchForm, is_int
from flacheck.subjects.inputs.expand import Source

FOLDER = "cuda"
_DECLARATION = re.compile(r"\A/\* flacheck\n(.*?)\*/\n", re.DOTALL)
_OWN_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"\n]+)"', re.MULTILINE)
_TOP = ("operator", "shapes", "units")


def read(folder: Path) -> Iterator[Source]:
    """Yield the units of a folder's files; raise MatrixError for a malformed file."""
    for file in sorted((folder / FOLDER).glob("*.cu")):
        yield from _units(file, folder)


def _units(file: Path, folder: Path) -> Iterator[Source]:
    text = files.read_text(file)
    declaration = _declaration(file, text)
    shapes = _shapes(file, declaration["shapes"])
    identity = digest(_sources(file, text))
    for name, unit in declaration["units"].items():
        if not isinstance(unit, dict) or set(unit) != {"form", "defines"}:
            raise MatrixError(str(file), 1, f"unit {name}: expected {{form: …, defines: …}}")
        kernel = Kernel(
            name=f"{file.stem}.{name}",
            package=None,
            digest=identity,
            origin=Unit(file.relative_to(folder).as_posix()),
            operator=declaration["operator"],
            form=unit["form"],
        )
        launch = _launch(file, name, unit["defines"], shapes[0])
        yield Source(kernel, (launch,), shapes)


def _declaration(file: Path, text: str) -> Mapping[str, Any]:
    comment = _DECLARATION.match(text)
    if comment is None:
        hint = "its first line is `/* flacheck`, and YAML follows"
        raise MatrixError(str(file), 1, "no declaration of its units", hint)
    try:
        declaration = yaml.safe_load(comment[1])
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 2 if mark else 1
        raise MatrixError(str(file), line, f"not valid YAML: {error}") from None
    if not isinstance(declaration, dict) or set(declaration) != set(_TOP):
        raise MatrixError(str(file), 1, f"a declaration has exactly {', '.join(_TOP)}")
    if not isinstance(declaration["units"], dict) or not isinstance(declaration["operator"], str):
        raise MatrixError(str(file), 1, "units is a mapping, operator a word")
    return declaration


def _shapes(file: Path, shapes: Any) -> tuple[Mapping[str, int], ...]:
    items = shapes if isinstance(shapes, list) else []
    fits = bool(items) and all(_is_shape(item, items[0]) for item in items)
    if not fits:
        hint = "shapes is a list like [{D: 64}, {D: 128}], each entry with the same names"
        raise MatrixError(str(file), 1, f"shapes {shapes!r} do not fit", hint)
    return tuple(items)


def _is_shape(item: Any, first: Any) -> bool:
    """Return True for a mapping of integers with the same names as the first shape."""
    if not isinstance(item, dict) or not isinstance(first, dict):
        return False
    return set(item) == set(first) and all(map(is_int, item.values()))


def _launch(file: Path, name: str, defines: Any, shape: Mapping[str, int]) -> Launch:
    """Return the unit's parameters: its macros correspond to a kernel's constexprs."""
    if not isinstance(defines, dict):
        raise MatrixError(str(file), 1, f"unit {name}: defines map a macro to its value")
    plain = {"args": {macro: {"constexpr": value} for macro, value in defines.items()}}
    try:
        LaunchForm(("dtype", *shape)).check(plain)
    except FormError as error:
        raise MatrixError(str(file), 1, f"unit {name}: {error.what}", error.hint) from None
    return Launch.from_json(plain)


def _sources(file: Path, text: str) -> dict[str, str]:
    """Return the file without its declaration, and the headers of its folder that it includes."""
    sources = {file.name: _DECLARATION.sub("", text)}
    waiting = _OWN_INCLUDE.findall(text)
    while waiting:
        name = waiting.pop()
        header = file.parent / name
        if name not in sources and header.is_file():
            sources[name] = files.read_text(header)
            waiting += _OWN_INCLUDE.findall(sources[name])
    return sources
