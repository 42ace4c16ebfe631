"""The kernels of published places: those that compile, and those that fail in half precision."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flacheck.evidence.published.library import ResultsFolder
from flacheck.model import Record, Verdict

# Subject, toolchain and target.
PlaceName = tuple[str, str, str]
# The dtypes that models run in; a failure in fp32 alone concerns few.
_HALF = ("bf16", "fp16")


@dataclass
class CompiledKernels:
    """The kernels of a place with a launch that compiles, and with a failure in bf16 or fp16."""

    proven: set[str]
    failing_in_half: set[str]

    def add(self, records: Iterable[Record]) -> None:
        """Add the kernels of some records."""
        for record in records:
            if record.verdict is Verdict.COMPILES:
                self.proven.add(record.kernel)
            elif record.verdict is Verdict.FAILS and record.dtype in _HALF:
                self.failing_in_half.add(record.kernel)


def compiled_kernels(library: ResultsFolder) -> dict[PlaceName, CompiledKernels]:
    """Return the kernels of each place; the files of several configurations count together."""
    by_place: dict[PlaceName, CompiledKernels] = {}
    for entry in library.entries():
        place = library.place(entry)
        if place is not None:
            name = (entry.about, entry.toolchain, entry.target)
            by_place.setdefault(name, CompiledKernels(set(), set())).add(place.records)
    return by_place
