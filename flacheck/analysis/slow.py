"""Slow compiles (FC921): finished, and still a finding."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from flacheck.analysis.known_good import group_by_key
from flacheck.analysis.observation import ObservedCell
from flacheck.model import Json, Record

CODE = "FC921"
# Both have to hold: a ratio of short times is mostly the noise of a shared machine.
SECONDS = 10.0
TIMES = 5.0


@dataclass(frozen=True)
class SlowCompile:
    """Seconds this compile took, and the median of the same cell on the other releases."""

    seconds: float
    median: float

    def to_json(self) -> Json:
        return {"seconds": round(self.seconds, 2), "median": round(self.median, 2)}


def slow_compiles(cells: Sequence[ObservedCell]) -> dict[str, SlowCompile]:
    """Cells, by key, that took at least 10 s and 5 times the median of the other releases that
    compile them. A cell that compiles on one release alone has nothing to be compared with."""
    compiling = [cell for cell in cells if cell.compiles]
    alike = group_by_key(
        ((cell.package, cell.kernel, cell.target, cell.call), cell) for cell in compiling
    )
    slow = {}
    for cell in compiling:
        if cell.seconds >= SECONDS:
            group = alike[cell.package, cell.kernel, cell.target, cell.call]
            # With its own time in the median no cell of two releases could reach five times.
            others = [other.seconds for other in group if other.toolchain != cell.toolchain]
            if others and cell.seconds >= TIMES * median(others):
                slow[cell.key] = SlowCompile(cell.seconds, median(others))
    return slow


def mark_slow(records: Iterable[Record], slow: Mapping[str, SlowCompile]) -> Iterator[Record]:
    """The records, those of slow compiles with the finding FC921; no verdict changes."""
    for record in records:
        facts = slow.get(record.key)
        # A stored record may carry the finding of the scan that made it.
        if facts is None or any(finding["code"] == CODE for finding in record.findings):
            yield record
        else:
            finding = {"code": CODE, "title": "slow compile", "facts": facts.to_json()}
            yield record.with_(findings=(*record.findings, finding))
