"""Our own kernels, and the launches that a matrix declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from flacheck.autotune.examined import Args, Tuned
from flacheck.autotune.sources.base import Asked, Gathered, runs, with_code
from flacheck.errors import EmptySelection
from flacheck.inputs import matrix, planning
from flacheck.inputs.expand import DEFAULT_TARGETS, Selection, Source, check_kernels
from flacheck.inputs.matrix import Matrix
from flacheck.model import Cell, Corpus
from flacheck.packages import package as packages
from flacheck.packages.package import Package
from flacheck.source import autotuned
from flacheck.tables import shipped
from flacheck.toolchains import Resolver

DTYPE = "bf16"


def gather(asked: Asked) -> Gathered:
    """The matrix's kernels that the glob names; one launch of each: the first of its shapes, in
    bf16 if it can be.
    """
    found = matrix.find(asked.matrix or "quick")
    provided = {spec: packages.provide_package(spec, asked.progress) for spec in found.packages}
    sources = planning.sources_of(found, provided)
    check_kernels([asked.glob], [source.kernel.name for source in sources])
    wanted = [source for source in sources if asked.names(source.kernel.name)]
    resolver = Resolver()
    tuned = examined(found, wanted, asked.selection, resolver, provided)
    if not tuned:
        raise EmptySelection(
            f"no kernel that {asked.glob!r} names has an autotuner and a launch in the dtypes asked"
        )
    return Gathered(tuned, resolver.choices, provided, resolver.warnings)


def examined(
    found: Matrix,
    sources: Sequence[Source],
    selection: Selection,
    resolver: Resolver,
    provided: Mapping[str, Package],
) -> list[Tuned]:
    """One launch of each kernel under each toolchain on each target."""
    return list(
        _examined(list(runs(sources, selection, resolver, DEFAULT_TARGETS, found.blocks)), provided)
    )


def _examined(cells: Sequence[Cell], provided: Mapping[str, Package]) -> Iterator[Tuned]:
    groups: dict[tuple[str, str | None, str, str], list[Cell]] = {}
    for cell in cells:
        groups.setdefault(
            (cell.kernel.name, cell.kernel.package, cell.toolchain, cell.target), []
        ).append(cell)
    for group in groups.values():
        chosen = next((cell for cell in group if cell.dtype == DTYPE), group[0])
        seen: tuple[Args, ...] = tuple(cell.launch.args for cell in group if cell.launch)
        yield with_code(
            Tuned(chosen, {}, seen, True, _declared(chosen, provided), by_matrix=True), provided
        )


def _declared(cell: Cell, provided: Mapping[str, Package]) -> autotuned.Declared | None:
    origin = cell.kernel.origin
    if isinstance(origin, Corpus):
        file = shipped("kernels") / f"{origin.family}.py"
        return autotuned.of_file(file, origin.name, f"kernels/{file.name}")
    package = provided.get(cell.kernel.package or "")
    return autotuned.of_module(Path(package.path), cell.kernel.name) if package else None
