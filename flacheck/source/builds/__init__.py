"""The C++ translation units of a project's build, read without building it: from
`compile_commands.json`, a ninja file, or `setup.py`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from flacheck.source.builds import compile_commands, ninja, setup_script
from flacheck.source.builds.arguments import BuildUnit

# What a build says it compiles comes before what a script would have it compile.
_READERS: Sequence[tuple[tuple[str, ...], Callable[[Path, Path], Sequence[BuildUnit]]]] = (
    (("compile_commands.json", "build/compile_commands.json"), compile_commands.read),
    (("build.ninja", "build/build.ninja", "build/temp*/build.ninja"), ninja.read),
    (("setup.py",), setup_script.read),
)


@dataclass(frozen=True)
class ProjectBuild:
    """What a project compiles, and the file that says so; both empty where no file does."""

    file: Path | None
    units: tuple[BuildUnit, ...]


def find(root: Path) -> ProjectBuild:
    """The translation units of the project in a folder; the first file with any decides.

    Raises MatrixError for a file that cannot be read.
    """
    for names, read in _READERS:
        for file in sorted(file for name in names for file in root.glob(name)):
            units = read(file, root)
            if units:
                return ProjectBuild(file, tuple(units))
    return ProjectBuild(None, ())


def describes(root: Path) -> bool:
    """Whether a folder holds a file that says what is compiled."""
    return any(any(root.glob(name)) for names, _ in _READERS for name in names)
