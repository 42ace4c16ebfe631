"""What a command is about, and the kernels that it leads to."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flacheck.inputs.expand import Source
from flacheck.inputs.matrix import Matrix
from flacheck.model import Json
from flacheck.packages.package import Package

DEFAULT_MATRIX = "quick"
_LINE = re.compile(r"(.+\.jsonl):(\d+)")


@dataclass(frozen=True)
class Subject:
    """What a command is about, as the user names it.

    `matrix` is a matrix's name, a YAML file, a launches file or `FILE.jsonl:LINE`; a `package`
    comes before it. `trust` lets a launches file name packages to install. `configs` is `own` for
    every configuration of every distinct launch, `usual` for one of each kernel and dtype; None
    for the default: `usual` of a package, `own` of anything else. `shared` is `usual` with the same
    configuration for all compilers, which a comparison needs. `captured` is a file that holds the
    captures of the package, so that all shards of a scan ask for the same cells. `with_tests` runs
    the own tests of a checkout beside the driver.
    """

    matrix: str | None = None
    package: str | None = None
    trust: bool = False
    configs: str | None = None
    captures_file: Path | None = None
    with_tests: bool = False

    @property
    def name(self) -> str:
        """What was named, in messages."""
        return self.package or self.matrix or DEFAULT_MATRIX


@dataclass(frozen=True)
class Kernels:
    """What a subject holds: kernels with their launches, and how they are to be expanded. `stale`
    are those that have changed since they were recorded."""

    matrix: Matrix
    sources: Sequence[Source]
    packages: Mapping[str, Package]
    warnings: tuple[str, ...] = ()
    stale: tuple[Json, ...] = ()


def line_of(name: str) -> tuple[Path, int | None]:
    """A file and, of `FILE.jsonl:LINE`, its line (from 1)."""
    placed = _LINE.fullmatch(name)
    if placed:
        return Path(placed[1]), int(placed[2])
    return Path(name), None
