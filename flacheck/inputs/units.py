"""flacheck's own CUDA C++ kernels: what each file in `kernels/cuda/` declares.

A file begins with a comment that holds YAML after the word `flacheck`: its `operator`, the `shapes`
to compile it in, and its `units`, each with a `form` and the `defines` (`-D`) that make it.
`"{dtype}"` and `"{HEAD_DIM}"` stand for the dtype and for an entry of the shape.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from flacheck.errors import MatrixError
from flacheck.inputs.expand import Source
from flacheck.model import Kernel, Launch, Unit, digest
from flacheck.model.launch import FormError, LaunchForm, is_int

FOLDER = "cuda"
_DECLARATION = re.compile(r"\A/\* flacheck\n(.*?)\*/\n", re.DOTALL)
_OWN_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"\n]+)"', re.MULTILINE)
_TOP = ("operator", "shapes", "units")


def read(folder: Path) -> Iterator[Source]:
    """The units that the files of a folder of kernels declare; a bad file raises MatrixError."""
    for file in sorted((folder / FOLDER).glob("*.cu")):
        yield from _units(file, folder)


def _units(file: Path, folder: Path) -> Iterator[Source]:
    text = file.read_text(encoding="utf-8")
    declared = _declaration(file, text)
    shapes = _shapes(file, declared["shapes"])
    identity = digest(_sources(file, text))
    for name, unit in declared["units"].items():
        if not isinstance(unit, dict) or set(unit) != {"form", "defines"}:
            raise MatrixError(str(file), 1, f"unit {name}: expected {{form: …, defines: …}}")
        kernel = Kernel(
            name=f"{file.stem}.{name}",
            package=None,
            digest=identity,
            origin=Unit(file.relative_to(folder).as_posix()),
            operator=declared["operator"],
            form=unit["form"],
        )
        yield Source(kernel, (_launch(file, name, unit["defines"], shapes[0]),), shapes)


def _declaration(file: Path, text: str) -> Mapping[str, Any]:
    found = _DECLARATION.match(text)
    if found is None:
        allowed = "its first line is `/* flacheck`, and YAML follows"
        raise MatrixError(str(file), 1, "no declaration of its units", allowed)
    try:
        declared = yaml.safe_load(found[1])
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 2 if mark else 1
        raise MatrixError(str(file), line, f"not valid YAML: {error}") from None
    if not isinstance(declared, dict) or set(declared) != set(_TOP):
        raise MatrixError(str(file), 1, f"a declaration has exactly {', '.join(_TOP)}")
    if not isinstance(declared["units"], dict) or not isinstance(declared["operator"], str):
        raise MatrixError(str(file), 1, "units is a mapping, operator a word")
    return declared


def _shapes(file: Path, shapes: Any) -> tuple[Mapping[str, int], ...]:
    listed = shapes if isinstance(shapes, list) else []
    fits = bool(listed) and all(isinstance(shape, dict) for shape in listed)
    fits = fits and all(set(shape) == set(listed[0]) for shape in listed)
    if not fits or not all(is_int(size) for shape in listed for size in shape.values()):
        allowed = "shapes is a list like [{D: 64}, {D: 128}], each entry with the same names"
        raise MatrixError(str(file), 1, f"shapes {shapes!r} do not fit", allowed)
    return tuple(listed)


def _launch(file: Path, name: str, defines: Any, shape: Mapping[str, int]) -> Launch:
    """The unit's parameters: a macro is a constant of the unit as a constexpr is of a kernel."""
    if not isinstance(defines, dict):
        raise MatrixError(str(file), 1, f"unit {name}: defines map a macro to its value")
    plain = {"args": {macro: {"constexpr": value} for macro, value in defines.items()}}
    try:
        LaunchForm(("dtype", *shape)).check(plain)
    except FormError as error:
        raise MatrixError(str(file), 1, f"unit {name}: {error.what}", error.hint) from None
    return Launch.from_json(plain)


def _sources(file: Path, text: str) -> dict[str, str]:
    """The file without its declaration and what it includes of its own folder, by name."""
    sources = {file.name: _DECLARATION.sub("", text)}
    waiting = _OWN_INCLUDE.findall(text)
    while waiting:
        name = waiting.pop()
        header = file.parent / name
        if name not in sources and header.is_file():
            sources[name] = header.read_text(encoding="utf-8")
            waiting += _OWN_INCLUDE.findall(sources[name])
    return sources
