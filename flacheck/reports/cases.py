"""Test cases of a run: one for each kernel × release × GPU, with its dtypes joined."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from flacheck.evidence.analysis.grid import Square
from flacheck.evidence.analysis.order import by_target, by_version, settings
from flacheck.model import Kernel, Record, Verdict
from flacheck.model.source_location import SourceLocation
from flacheck.model.text import visible
from flacheck.reports.document import Case, CaseOutcome

# The characters of a message in a case; the JSON report has it in full.
_MESSAGE = 400

# A package and a kernel.
KernelName = tuple[str | None, str]


@dataclass(slots=True)
class _DtypeCells:
    """The cells of a kernel in a dtype: their counts, failures that count, and an example.

    The example is the worst failure, else the most expensive compile.
    """

    square: Square = field(default_factory=Square)
    blocking: int = 0
    seconds: float = 0.0
    rank: tuple[Any, ...] = ()
    example: Record | None = None

    def add(self, record: Record, is_untested: bool, is_blocking: bool) -> None:
        """Count one more cell."""
        self.square.count(record, is_untested)
        self.blocking += is_blocking
        self.seconds += record.seconds
        fails = record.verdict is Verdict.FAILS
        spills = record.resources.get("spills") or 0
        rank = (is_blocking, fails, record.verdict is Verdict.UNKNOWN, spills, record.seconds)
        if rank > self.rank:
            self.rank = rank
            self.example = record

    @property
    def state(self) -> str:
        """`fails`, `compiles`, `unknown`, `skipped` or `untested`; only `fails` counts."""
        square = self.square
        if self.blocking:
            return "fails"
        if square.compiles:
            return "compiles"
        if square.unknown:
            return "unknown"
        # Only accepted failures are left, or nothing that was tried.
        if square.tested_count:
            return "accepted"
        return "untested" if square.untested_count else "skipped"


def cases_of(
    records: Iterable[Record],
    blocking_keys: Container[str],
    untested_keys: Container[str],
    place: Callable[[Kernel], SourceLocation],
) -> Iterator[Case]:
    """Yield a case for each kernel × release × GPU, in the order of reports."""
    kernels: dict[KernelName, Kernel] = {}
    suites: dict[tuple[str, str], dict[KernelName, dict[str, _DtypeCells]]] = {}
    for record in records:
        name = (record.package, record.kernel)
        kernels.setdefault(name, record.cell.kernel)
        of_suite = suites.setdefault((record.target, record.toolchain), {})
        cells = of_suite.setdefault(name, {}).setdefault(record.dtype or "", _DtypeCells())
        cells.add(record, record.key in untested_keys, record.key in blocking_keys)
    for target, release in sorted(suites, key=_by_target_and_version):
        of_suite = suites[target, release]
        # flacheck's own kernels, which belong to no package, come first.
        for name in sorted(of_suite, key=lambda name: (name[0] or "", name[1])):
            of_dtypes = sorted(of_suite[name].items())
            yield _case(f"{release} {target}", name, of_dtypes, place(kernels[name]))


def _by_target_and_version(suite: tuple[str, str]) -> tuple[Any, ...]:
    target, release = suite
    return by_target(target), by_version(release)


def _case(
    suite: str,
    name: KernelName,
    of_dtypes: Sequence[tuple[str, _DtypeCells]],
    place: SourceLocation,
) -> Case:
    package, kernel = name
    states = [cells.state for _, cells in of_dtypes]
    outcome = CaseOutcome.SKIPPED
    if "fails" in states:
        outcome = CaseOutcome.FAILED
    elif "compiles" in states:
        outcome = CaseOutcome.PASSED
    texts = []
    for dtype, cells in of_dtypes:
        if outcome is not CaseOutcome.PASSED and cells.example and cells.state != "compiles":
            texts.append(_describe(dtype, cells.example, cells.state))
    module, _, function = kernel.rpartition(":")
    return Case(
        suite=suite,
        group=module or package or "flacheck",
        name=function,
        outcome=outcome,
        text="".join(texts[:1]),
        details="\n".join(texts),
        seconds=sum(cells.seconds for _, cells in of_dtypes),
        place=place,
    )


def _describe(dtype: str, record: Record, state: str) -> str:
    text = record.reason or ""
    if record.verdict is Verdict.FAILS:
        text = record.message.partition("\n")[0]
    words = (dtype, settings(record.options), record.code, visible(text[:_MESSAGE]) or state)
    return " ".join(filter(None, words))
