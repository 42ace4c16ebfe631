"""The question that a source answers, and what it answers with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flacheck.autotune.examined import Tuned
from flacheck.fallbacks.code import host_launches, kernel_code
from flacheck.inputs.expand import Selection, Source, expand, named
from flacheck.inputs.matrix import Block, Matrix
from flacheck.model import Cell
from flacheck.packages.package import Package
from flacheck.toolchains import Resolver
from flacheck.toolchains.base import Choice, Progress, silent


@dataclass(frozen=True)
class Asked:
    """`glob` names kernels; `package` a package to capture, or `file` a launches file (of which
    `line` only), or else `matrix`, our own kernels without one.
    """

    glob: str
    selection: Selection
    package: str | None = None
    file: Path | None = None
    line: int | None = None
    matrix: str | None = None
    trust: bool = False
    progress: Progress = silent

    def names(self, kernel: str) -> bool:
        return named(self.glob, kernel)


@dataclass(frozen=True)
class Gathered:
    """What the sources hold, with the compilers and packages for it. `notes` are for the user's
    eyes.
    """

    found: Sequence[Tuned]
    choices: Mapping[str, Choice]
    packages: Mapping[str, Package]
    notes: Sequence[str] = ()


_KEPT = ("kernel", "package", "dtype", "shape")


def runs(
    sources: Sequence[Source],
    selection: Selection,
    resolver: Resolver,
    targets: Iterable[str],
    blocks: Sequence[Block] = (Block({}),),
    name: str = "autotune",
) -> Iterator[Cell]:
    """The autotuner runs of sources: one cell a distinct launch, dtype, shape, toolchain and
    target; of a matrix's blocks only what tells launches apart is taken.
    """
    where = {
        "target": tuple(selection.targets or targets),
        "triton": selection.toolchains or ("installed",),
    }
    kept = [{axis: block.axes[axis] for axis in _KEPT if axis in block.axes} for block in blocks]
    matrix = Matrix(
        name, name, tuple(Block({**axes, "stage": ("autotune",), **where}) for axes in kept)
    )
    yield from expand(matrix, sources, Selection(dtypes=selection.dtypes), resolver)


def with_code(tuned: Tuned, provided: Mapping[str, Package]) -> Tuned:
    """A tuned kernel with what its own code and the host code that launches it do with its
    parameters.
    """
    kernel = tuned.cell.kernel
    code = kernel_code(kernel, provided)
    return replace(tuned, code=code, hosts=tuple(host_launches(kernel, code.parameters, provided)))
