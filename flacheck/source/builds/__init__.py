"""The C++ translation units of a project, read without building it.

Sources are `compile_commands.json` and a ninja file: records of a build.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flacheck.files import lies_inside
from flacheck.source.builds import compile_commands, ninja
from flacheck.source.builds.arguments import (
    BuildUnit,
    BuildUnits,
    is_read_as_option,
    printable,
)
from flacheck.source.builds.build_file import is_file

_READERS: Sequence[tuple[tuple[str, ...], Callable[[Path, Path], BuildUnits]]] = (
    (("compile_commands.json", "build/compile_commands.json"), compile_commands.read),
    (("build.ninja", "build/build.ninja", "build/temp*/build.ninja"), ninja.read),
)
# Names in one warning; a build may lack hundreds of files that it generates.
_MOST_NAMES = 5


@dataclass(frozen=True)
class ProjectBuild:
    """The units that a project compiles and the file that lists them; None if no file does.

    `warnings` name the units that flacheck leaves out, and the parts that it could not evaluate.
    """

    file: Path | None
    units: tuple[BuildUnit, ...]
    warnings: tuple[str, ...] = ()


def find(root: Path) -> ProjectBuild:
    """Return the translation units of a project: of the first file with a unit that exists.

    Raises MatrixError for a file that cannot be read.
    """
    warnings: list[str] = []
    for names, read in _READERS:
        files: list[Path] = []
        for name in names:
            files += root.glob(name)
        for file in sorted(files):
            build = checked(read(file, root), file, root)
            warnings += build.warnings
            if build.units:
                return replace(build, warnings=tuple(warnings))
    return ProjectBuild(None, (), tuple(warnings))


def checked(build: BuildUnits, file: Path, root: Path) -> ProjectBuild:
    """Return those units of a build file that can be compiled, with warnings about the others."""
    units, refusals = _split_refusals(build.units, root)
    warnings = (*build.warnings, *_refusal_warnings(file.relative_to(root), refusals))
    return ProjectBuild(file, tuple(units), warnings)


def _split_refusals(
    candidates: Iterable[BuildUnit], root: Path
) -> tuple[list[BuildUnit], dict[str, list[str]]]:
    """Return the units that can be compiled, and the files of the others by the reason."""
    units = []
    refusals: dict[str, list[str]] = {}
    reasons: dict[str, str] = {}
    for unit in candidates:
        file = unit.file
        if file not in reasons:
            reasons[file] = _refusal(file, root)
            if reasons[file]:
                refusals.setdefault(reasons[file], []).append(file)
        if not reasons[file]:
            units.append(unit)
    return units, refusals


def _refusal(file: str, root: Path) -> str:
    """Return why a unit cannot be compiled, in words that follow its count; empty if it can be."""
    if is_read_as_option(file):
        return "have names that a compiler reads as options"
    if not is_file(root / file):
        return "do not exist"
    if not lies_inside(root / file, root):
        return "are outside of the project, or links to files there"
    return ""


def _refusal_warnings(build_file: Path, refusals: dict[str, list[str]]) -> Iterator[str]:
    for reason, files in refusals.items():
        names = ", ".join(map(printable, files[:_MOST_NAMES]))
        if len(files) > _MOST_NAMES:
            names += f" and {len(files) - _MOST_NAMES} more"
        yield f"{build_file}: {len(files)} of its units {reason} and are left out: {names}"
