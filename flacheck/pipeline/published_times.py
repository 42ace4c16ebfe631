"""Compile times of published results, which order and estimate the first compiles of a package."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flacheck.errors import UsageError
from flacheck.evidence.analysis.order import by_target
from flacheck.evidence.published.form import FileEntry
from flacheck.evidence.published.library import ResultsFolder, open_library
from flacheck.model import Cell, Verdict, canonical
from flacheck.pipeline.schedule import StoredCost


def published_costs(cells: Iterable[Cell]) -> list[StoredCost]:
    """Return the costs of each package's cells on the nearest published GPU, as of the asked one.

    They order compiles and estimate their time, and are never an answer.
    """
    places = {(each.kernel.package, each.toolchain, each.target) for each in cells}
    costs: list[StoredCost] = []
    try:
        library = open_library()
        for package, toolchain, target in places:
            if package is not None:
                costs += _nearest(library, package, toolchain, target)
    except UsageError:
        # Without results, or with damaged ones, nothing is estimated.
        return []
    return costs


def _nearest(
    library: ResultsFolder, package: str, toolchain: str, target: str
) -> Iterator[StoredCost]:
    """Yield the costs of the file whose release and GPU are nearest."""

    def distance(entry: FileEntry) -> tuple[bool, bool, int]:
        gpu = abs(by_target(entry.target)[2] - by_target(target)[2])
        return entry.configs != "usual", entry.toolchain != toolchain, gpu

    entries = library.entries(package)
    if not entries:
        return
    body = library.body(min(entries, key=distance))
    for cell in body.cells:
        if cell.launch is not None:
            yield StoredCost(
                kernel=body.kernels[cell.kernel].name,
                package=package,
                target=target,
                dtype=cell.dtype,
                launch=canonical(body.launches[cell.launch]),
                options=canonical(body.options[cell.options]),
                seconds=cell.seconds,
                has_failed=body.outcomes[cell.outcome].verdict == Verdict.FAILS.value,
            )
