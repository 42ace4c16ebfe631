"""Slow compiles (FC921): compiles that finished and are still findings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from flacheck.evidence.analysis.known_good import group_by_key
from flacheck.evidence.analysis.observation import ObservedCell
from flacheck.model import Record

CODE = "FC921"
# Both conditions must hold: a ratio of short times is mostly the noise of a shared machine.
SECONDS = 10.0
TIMES = 5.0


@dataclass(frozen=True)
class SlowCompile:
    """The CPU seconds of this compile, and their median over the same cell's other releases."""

    seconds: float
    median: float


def slow_compiles(cells: Sequence[ObservedCell]) -> dict[str, SlowCompile]:
    """Return the slow cells by key: at least 10 s and 5 times the median of other releases.

    A cell that compiles on one release alone cannot be compared.
    """
    alike = group_by_key((_call_of(cell), cell) for cell in cells if cell.compiles)
    slow = {}
    for cell in cells:
        if not cell.compiles or cell.seconds < SECONDS:
            continue
        group = alike[_call_of(cell)]
        # With its own time in the median no cell of two releases could reach five times.
        others = [other.seconds for other in group if other.toolchain != cell.toolchain]
        if others and cell.seconds >= TIMES * median(others):
            slow[cell.key] = SlowCompile(cell.seconds, median(others))
    return slow


def _call_of(cell: ObservedCell) -> tuple[str | None, str, str, str]:
    return cell.package, cell.kernel, cell.target, cell.call


def mark_slow(records: Iterable[Record], slow: Mapping[str, SlowCompile]) -> Iterator[Record]:
    """Yield the records, those of slow compiles with the finding FC921; verdicts stay."""
    for record in records:
        facts = slow.get(record.key)
        # A stored record may carry the finding of the scan that made it.
        if facts is None or any(finding["code"] == CODE for finding in record.findings):
            yield record
        else:
            rounded = {"seconds": round(facts.seconds, 2), "median": round(facts.median, 2)}
            finding = {"code": CODE, "title": "slow compile", "facts": rounded}
            yield record.with_(findings=(*record.findings, finding))
