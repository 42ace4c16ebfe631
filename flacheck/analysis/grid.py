"""Kernel × release, per target: the counts behind the matrix that a person sees at a glance."""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

from flacheck.analysis.groups import UNCLASSIFIED
from flacheck.analysis.order import by_target, by_version
from flacheck.analysis.slow import CODE as SLOW
from flacheck.model import Record, Verdict

KernelOf = tuple[str | None, str]


@dataclass
class Square:
    """All cells of one kernel on one release and target; `codes` counts the failures, `tolerated`
    those that an autotuner passes over, `untested` the cells that say nothing."""

    verdicts: Counter[Verdict] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    tolerated_codes: Counter[str] = field(default_factory=Counter)
    slow: int = 0
    untested_count: int = 0

    def count(self, record: Record, untested: bool) -> None:
        """Take in one more cell."""
        if untested:
            self.untested_count += 1
            return
        self.verdicts[record.verdict] += 1
        self.slow += any(finding["code"] == SLOW for finding in record.findings)
        if record.verdict is Verdict.FAILS and record.tolerated:
            self.tolerated_codes[record.code or UNCLASSIFIED] += 1
        elif record.verdict is Verdict.FAILS:
            self.codes[record.code or UNCLASSIFIED] += 1

    @property
    def compiles(self) -> int:
        return self.verdicts[Verdict.COMPILES]

    @property
    def unknown(self) -> int:
        return self.verdicts[Verdict.UNKNOWN]

    @property
    def tested_count(self) -> int:
        """Cells that were tried, whatever came of it."""
        return sum(self.verdicts.values()) - self.verdicts[Verdict.SKIPPED]

    @property
    def blocking(self) -> bool:
        """Whether something fails that nothing here makes up for."""
        return bool(self.codes or (self.tolerated_codes and not self.compiles))

    @property
    def perfect(self) -> bool:
        """Whether there is nothing to say but that all compile."""
        aside = self.slow or self.untested_count
        return self.tested_count > 0 and self.compiles == self.tested_count and not aside


Row = Mapping[str, Square]


@dataclass(frozen=True)
class Grid:
    """`targets` maps target → kernel → toolchain → square; toolchains oldest first."""

    toolchains: tuple[str, ...]
    targets: Mapping[str, Mapping[KernelOf, Row]]

    def tested_toolchains(self, target: str) -> tuple[str, ...]:
        """The toolchains that have a record on this target."""
        rows = self.targets[target].values()
        return tuple(name for name in self.toolchains if any(name in row for row in rows))


def grid(records: Iterable[Record], untested: Container[str] = ()) -> Grid:
    """Count the records into squares, targets and kernels in order; `untested` are keys of cells
    that say nothing."""
    squares: defaultdict[str, defaultdict[KernelOf, defaultdict[str, Square]]]
    squares = defaultdict(lambda: defaultdict(lambda: defaultdict(Square)))
    toolchains: set[str] = set()
    for record in records:
        toolchains.add(record.toolchain)
        square = squares[record.target][record.package, record.kernel][record.toolchain]
        square.count(record, record.key in untested)
    rows = {}
    for target in sorted(squares, key=by_target):
        # Our own kernels, which have no package, come first.
        kernels = sorted(squares[target], key=lambda kernel: (kernel[0] or "", kernel[1]))
        rows[target] = {kernel: squares[target][kernel] for kernel in kernels}
    return Grid(tuple(sorted(toolchains, key=by_version)), rows)
