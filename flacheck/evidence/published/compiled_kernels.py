"""The kernels of published places: those that compile, and those that fail."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flacheck.evidence.published.library import ResultsFolder
from flacheck.model import Record, Verdict

# Subject, toolchain and target.
PlaceName = tuple[str, str, str]
# The stages of failures that no kernel has: a module's import and an operator's call.
_HOST_STAGES = ("import", "call")


@dataclass
class CompiledKernels:
    """The kernels of a place with a launch that compiles, and with one that fails."""

    proven: set[str]
    failing: set[str]

    def add(self, records: Iterable[Record]) -> None:
        """Add the kernels of some records."""
        for record in records:
            if record.verdict is Verdict.COMPILES:
                self.proven.add(record.kernel)
            elif record.verdict is Verdict.FAILS and record.stage not in _HOST_STAGES:
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
