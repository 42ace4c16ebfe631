"""Kernel × release, per target: the counts of the overview matrix."""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

from flacheck.evidence.analysis.groups import UNCLASSIFIED
from flacheck.evidence.analysis.order import by_target, by_version
from flacheck.evidence.analysis.slow import CODE as SLOW
from flacheck.model import Record, Verdict

KernelOf = tuple[str | None, str]


@dataclass
class Square:
    """All cells of one kernel on one release and target.

    `codes` counts the failures, `tolerated_codes` those that an autotuner skips, `untested_count`
    the cells without evidence.
    """

    verdicts: Counter[Verdict] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    tolerated_codes: Counter[str] = field(default_factory=Counter)
    slow: int = 0
    untested_count: int = 0

    def count(self, record: Record, is_untested: bool) -> None:
        """Count one more cell."""
        if is_untested:
            self.untested_count += 1
            return
        self.verdicts[record.verdict] += 1
        self.slow += any(finding["code"] == SLOW for finding in record.findings)
        if record.verdict is not Verdict.FAILS:
            return
        counts = self.codes
        if record.tolerated:
            counts = self.tolerated_codes
        counts[record.code or UNCLASSIFIED] += 1

    @property
    def compiles(self) -> int:
        return self.verdicts[Verdict.COMPILES]

    @property
    def unknown(self) -> int:
        return self.verdicts[Verdict.UNKNOWN]

    @property
    def tested_count(self) -> int:
        """The number of cells that were tried, whatever the outcome."""
        return sum(self.verdicts.values()) - self.verdicts[Verdict.SKIPPED]

    @property
    def blocking(self) -> bool:
        """True if a failure is not covered by another configuration here."""
        return bool(self.codes or (self.tolerated_codes and not self.compiles))

    @property
    def perfect(self) -> bool:
        """True if all cells compile and none is slow or untested."""
        aside = self.slow or self.untested_count
        return self.tested_count > 0 and self.compiles == self.tested_count and not aside


Row = Mapping[str, Square]


@dataclass(frozen=True)
class Grid:
    """Counts by target, kernel and toolchain, with the toolchains oldest first."""

    toolchains: tuple[str, ...]
    targets: Mapping[str, Mapping[KernelOf, Row]]

    def tested_toolchains(self, target: str) -> tuple[str, ...]:
        """Return the toolchains that have a record on this target."""
        rows = self.targets[target].values()
        present = set[str]().union(*rows)
        return tuple(filter(present.__contains__, self.toolchains))


def grid(records: Iterable[Record], untested_keys: Container[str] = ()) -> Grid:
    """Count the records into squares, with targets and kernels in order.

    `untested_keys` are the keys of cells without evidence.
    """
    squares: dict[str, dict[KernelOf, dict[str, Square]]] = {}
    toolchains: set[str] = set()
    for record in records:
        toolchains.add(record.toolchain)
        rows = squares.setdefault(record.target, {})
        row = rows.setdefault((record.package, record.kernel), {})
        square = row.setdefault(record.toolchain, Square())
        square.count(record, record.key in untested_keys)
    targets = {}
    for target in sorted(squares, key=by_target):
        targets[target] = dict(sorted(squares[target].items(), key=_package_and_kernel))
    return Grid(tuple(sorted(toolchains, key=by_version)), targets)


def _package_and_kernel(row: tuple[KernelOf, Row]) -> tuple[str, str]:
    (package, kernel), _ = row
    # flacheck's own kernels, which belong to no package, come first.
    return package or "", kernel
