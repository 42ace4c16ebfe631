"""The C++ translation units of a project's build, read without building it: from
`compile_commands.json`, a ninja file, or `setup.py`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from flacheck.source.builds import compile_commands, ninja, setup_script
from flacheck.source.builds.arguments import (
    BuildUnit,
    BuildUnits,
    is_read_as_option,
    printable,
)
from flacheck.source.builds.build_file import is_file, lies_inside

# A build's own record of what it compiles comes before what a script would have it compile.
_READERS: Sequence[tuple[tuple[str, ...], Callable[[Path, Path], BuildUnits]]] = (
    (("compile_commands.json", "build/compile_commands.json"), compile_commands.read),
    (("build.ninja", "build/build.ninja", "build/temp*/build.ninja"), ninja.read),
    (("setup.py",), setup_script.read),
)
# Names in one warning; a build may lack hundreds of files that it generates.
_MOST_NAMES = 5


@dataclass(frozen=True)
class ProjectBuild:
    """The units that a project compiles and the file that lists them; None where no file does.

    `warnings` name what the files list and flacheck leaves out, and what it could not work out.
    """

    file: Path | None
    units: tuple[BuildUnit, ...]
    warnings: tuple[str, ...] = ()


def find(root: Path) -> ProjectBuild:
    """Return the translation units of the project in a folder; the first file with a unit that
    exists decides.

    Raises MatrixError for a file that cannot be read.
    """
    warnings: list[str] = []
    for names, read in _READERS:
        for file in sorted(file for name in names for file in root.glob(name)):
            listed = read(file, root)
            warnings += listed.warnings
            units, refusals = _checked(listed.units, root)
            warnings += _refusal_warnings(file.relative_to(root), refusals)
            if units:
                return ProjectBuild(file, tuple(units), tuple(warnings))
    return ProjectBuild(None, (), tuple(warnings))


def describes(root: Path) -> bool:
    """Whether a folder holds a file that says what is compiled."""
    return any(any(root.glob(name)) for names, _ in _READERS for name in names)


def _checked(
    listed: Iterable[BuildUnit], root: Path
) -> tuple[list[BuildUnit], dict[str, list[str]]]:
    """Return the units that can be compiled, and the files of the others by the reason."""
    units = []
    refusals: dict[str, list[str]] = {}
    reasons: dict[str, str] = {}
    for unit in listed:
        if unit.file not in reasons:
            reasons[unit.file] = _refusal(unit.file, root)
            if reasons[unit.file]:
                refusals.setdefault(reasons[unit.file], []).append(unit.file)
        if not reasons[unit.file]:
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
        named = ", ".join(map(printable, files[:_MOST_NAMES]))
        if len(files) > _MOST_NAMES:
            named += f" and {len(files) - _MOST_NAMES} more"
        yield f"{build_file}: {len(files)} of its units {reason} and are left out: {named}"
