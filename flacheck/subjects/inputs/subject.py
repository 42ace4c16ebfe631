"""The subject of a command, and its kernels."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flacheck.model import Json
from flacheck.source.packages.package import Package
from flacheck.subjects.inputs.expand import Source
from flacheck.subjects.inputs.matrix import Matrix

DEFAULT_MATRIX = "quick"
_LINE = re.compile(r"(.+\.jsonl):(\d+)")


@dataclass(frozen=True)
class Subject:
    """The subject of a command, as the user names it.

    - `matrix`: a matrix's name, a YAML file, a launches file or `FILE.jsonl:LINE`
    - `package`: comes before a matrix
    - `trust`: lets a launches file name packages to install
    - `configs`: `own` for every configuration of every distinct launch; `usual` for one of each
      kernel and dtype; `edges` for those and a few extreme ones. None means `own` for a toolchain
      and target with few configurations, else `edges`.
    - `shape`: the sizes at which a package's operators are called, by the symbols of dimensions
    - `compares`: has the same configurations for all compilers if possible, for a comparison
    - `captures_file`: a file with the captures of the package, so that all shards of a scan have
      the same cells
    - `with_tests`: runs a checkout's own tests besides the driver
    """

    matrix: str | None = None
    package: str | None = None
    trust: bool = False
    configs: str | None = None
    captures_file: Path | None = None
    with_tests: bool = False
    compares: bool = False
    shape: tuple[tuple[str, int], ...] = ()

    @property
    def name(self) -> str:
        """The subject's name in messages."""
        return self.package or self.matrix or DEFAULT_MATRIX


@dataclass(frozen=True)
class Kernels:
    """The kernels of a subject with their launches, and the matrix to expand.

    `stale` are the kernels that have changed since they were recorded; `usual_sources` hold one
    launch of each kernel and dtype, and are None for a matrix, which itself chooses configurations.
    """

    matrix: Matrix
    sources: Sequence[Source]
    packages: Mapping[str, Package]
    warnings: tuple[str, ...] = ()
    stale: tuple[Json, ...] = ()
    usual_sources: Sequence[Source] | None = None


def line_of(name: str) -> tuple[Path, int | None]:
    """Split `FILE.jsonl:LINE` into a file and a line from 1; None for a name without a line."""
    match = _LINE.fullmatch(name)
    if match:
        return Path(match[1]), int(match[2])
    return Path(name), None
