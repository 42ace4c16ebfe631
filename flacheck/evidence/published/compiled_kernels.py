"""The kernels of published places: those that compile, and those that fail."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flacheck.evidence.published.library import ResultsFolder
from flacheck.model import Record, Verdict

# Subject, toolchain and target.
PlaceName = tuple[str, str, str]


@dataclass
class CompiledKernels:
    """The kernels of a place with a launch that compiles, and with one that fails."""

    proven: set[str]
    failing: set[str]

    def add(self, records: Iterable[Record]) -> None:
        """Add the kernels of some records; a refused call or a module's import is none."""
        for record in records:
            is_kernel = record.stage != "call" and not record.kernel.endswith(":__init__")
            if record.verdict is Verdict.COMPILES:
                self.proven.add(record.kernel)
            elif record.verdict is Verdict.FAILS and is_kernel:
                self.failing.add(record.kernel)


def compiled_kernels(library: ResultsFolder) -> dict[PlaceName, CompiledKernels]:
    """Return the kernels of each place; the files of several configurations count together."""
    by_place: dict[PlaceName, CompiledKernels] = {}
    for entry in library.entries():
        place = library.place(entry)
        if place is not None:
            name = (entry.about, entry.toolchain, entry.target)
            by_place.setdefault(name, CompiledKernels(set(), set())).add(place.records)
    return by_place
