"""Kernels × releases for each GPU and dtype: the chart of a page, and the cases of a test report.

A square of the chart stands for all configurations of a kernel in a dtype under a release on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flacheck.evidence.analysis.grid import Square
from flacheck.evidence.analysis.order import by_target, by_version, settings, short
from flacheck.model import Json, Kernel, Record, Verdict
from flacheck.model.source_location import SourceLocation
from flacheck.model.text import visible
from flacheck.reports.document import Case, CaseOutcome
from flacheck.rules import RULES
from flacheck.tables.targets import TARGETS

# The characters of a message on a page; the JSON report has it in full.
_MESSAGE = 400
_KEY = 12
_RESOURCES = ("shared", "registers", "stack", "spills")
_LETTERS = {
    "fails": "f",
    "compiles": "c",
    "accepted": "a",
    "unknown": "?",
    "untested": "n",
    "skipped": "s",
}
# The marks of a square, as bits of a number.
SLOW, SPILLS, UNTESTED_CELLS, PARTLY_UNKNOWN, ACCEPTED_FAILURES = 1, 2, 4, 8, 16


@dataclass(slots=True)
class ExampleRecord:
    """The record that represents a square: its worst failure, else its most expensive compile."""

    rank: tuple[Any, ...]
    key: str
    verdict: Verdict
    code: str | None
    text: str
    signature: str | None
    options: str
    seconds: float
    resources: tuple[int | None, ...]


@dataclass(slots=True)
class ChartSquare:
    """The counts of a square, its example record, and its number of failures that count."""

    square: Square = field(default_factory=Square)
    blocking: int = 0
    example: ExampleRecord | None = None
    seconds: float = 0.0
    spills: bool = False

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


RowName = tuple[str | None, str, str]
Rows = dict[RowName, dict[str, ChartSquare]]


class Chart:
    """Squares by target, then by (package, kernel, dtype), then by column."""

    def __init__(
        self, blocking_keys: Container[str] = (), untested_keys: Container[str] = ()
    ) -> None:
        self.targets: dict[str, Rows] = {}
        self.kernels: dict[tuple[str | None, str], Kernel] = {}
        self._blocking_keys = blocking_keys
        self._untested_keys = untested_keys

    def add(self, record: Record, column: str) -> None:
        """Count a record in a column, which is a release or a side of a comparison."""
        self.kernels.setdefault((record.package, record.kernel), record.cell.kernel)
        rows = self.targets.setdefault(record.target, {})
        row = rows.setdefault((record.package, record.kernel, record.dtype or ""), {})
        square = row.setdefault(column, ChartSquare())
        square.square.count(record, record.key in self._untested_keys)
        square.blocking += record.key in self._blocking_keys
        square.seconds += record.seconds
        square.spills |= bool(record.resources.get("spills"))
        example = _example_of(record, record.key in self._blocking_keys)
        if square.example is None or example.rank > square.example.rank:
            square.example = example

    def sorted_targets(self) -> list[tuple[str, Rows]]:
        """Return the targets and their rows in the order of reports."""
        targets = []
        for target in sorted(self.targets, key=by_target):
            rows = self.targets[target]
            # flacheck's own kernels, which belong to no package, come first.
            names = sorted(rows, key=lambda name: (name[0] or "", *name[1:]))
            targets.append((target, {name: rows[name] for name in names}))
        return targets


def of_records(
    records: Iterable[Record], blocking_keys: Container[str], untested_keys: Container[str]
) -> Chart:
    """Return the chart of a run, with a column for each toolchain."""
    chart = Chart(blocking_keys, untested_keys)
    for record in records:
        chart.add(record, record.toolchain)
    return chart


def _example_of(record: Record, is_blocking: bool) -> ExampleRecord:
    fails = record.verdict is Verdict.FAILS
    resources = tuple(record.resources.get(name) for name in _RESOURCES)
    spills = record.resources.get("spills") or 0
    rank = (is_blocking, fails, record.verdict is Verdict.UNKNOWN, spills, record.seconds)
    text = record.message.partition("\n")[0] if fails else record.reason or ""
    return ExampleRecord(
        rank=rank,
        key=record.key[:_KEY],
        verdict=record.verdict,
        code=record.code,
        text=visible(text[:_MESSAGE]),
        signature=record.signature,
        options=settings(record.options),
        seconds=record.seconds,
        resources=resources,
    )


# Test cases


def cases(chart: Chart, place: Callable[[Kernel], SourceLocation]) -> Iterator[Case]:
    """Yield a case for each kernel × release × GPU; dtypes are joined."""
    for target, rows in chart.sorted_targets():
        suites: dict[str, dict[tuple[str | None, str], list[tuple[str, ChartSquare]]]] = {}
        for (package, kernel, dtype), squares in rows.items():
            for column, square in squares.items():
                of_kernel = suites.setdefault(column, {}).setdefault((package, kernel), [])
                of_kernel.append((dtype, square))
        for column in sorted(suites, key=by_version):
            for name, of_dtypes in suites[column].items():
                yield _case(f"{column} {target}", name, of_dtypes, place(chart.kernels[name]))


def _case(
    suite: str,
    name: tuple[str | None, str],
    of_dtypes: Sequence[tuple[str, ChartSquare]],
    place: SourceLocation,
) -> Case:
    package, kernel = name
    states = [square.state for _, square in of_dtypes]
    outcome = CaseOutcome.SKIPPED
    if "fails" in states:
        outcome = CaseOutcome.FAILED
    elif "compiles" in states:
        outcome = CaseOutcome.PASSED
    texts = []
    for dtype, square in of_dtypes:
        example = square.example
        if outcome is not CaseOutcome.PASSED and example is not None and square.state != "compiles":
            words = (dtype, example.options, example.code, example.text or square.state)
            texts.append(" ".join(filter(None, words)))
    module, _, function = kernel.rpartition(":")
    return Case(
        suite=suite,
        group=module or package or "flacheck",
        name=function,
        outcome=outcome,
        text="".join(texts[:1]),
        details="\n".join(texts),
        seconds=sum(square.seconds for _, square in of_dtypes),
        place=place,
    )


# The value for the script of a page


class _Texts:
    """Texts of a page, each once."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        if text not in self._numbers:
            self._numbers[text] = len(self.all)
            self.all.append(text)
        return self._numbers[text]


def to_json(
    chart: Chart,
    advisories: Sequence[tuple[str, Sequence[str], str]] = (),
    fallbacks: Mapping[tuple[str, str, str], Sequence[str]] | None = None,
    columns: Mapping[str, str] | None = None,
) -> Json:
    """Return the chart for the script of a page, short enough for thousands of kernels.

    `advisories` are (release, targets, text), `fallbacks` settings by (kernel, toolchain, target);
    `columns` are the labels of the columns in order, by default the releases.
    """
    texts = _Texts()
    codes: dict[str, None] = {}
    targets = []
    for target, rows in chart.sorted_targets():
        names = list(columns or _sorted_columns(rows))
        lines = []
        for row_name, squares in rows.items():
            line = _row_names(row_name, texts)
            kernel = row_name[1]
            for column in names:
                square = squares.get(column)
                uses = (fallbacks or {}).get((kernel, column, target), ())
                line.append(_square_to_json(square, uses, texts))
                if square is not None and square.example is not None and square.example.code:
                    codes[square.example.code] = None
            lines.append(line)
        gpu = ""
        if target in TARGETS:
            gpu = TARGETS[target].gpu
        labels = columns or {}
        targets.append(
            {
                "name": target,
                "gpu": gpu,
                "columns": [labels.get(name) or short(name) for name in names],
                "releases": names,
                "advisories": [_advisories_of(name, target, advisories) for name in names],
                "rows": lines,
            }
        )
    return {
        "texts": texts.all,
        "targets": targets,
        "rules": _rule_texts(codes),
    }


def _sorted_columns(rows: Rows) -> list[str]:
    columns: set[str] = set()
    for squares in rows.values():
        columns.update(squares)
    return sorted(columns, key=by_version)


def _row_names(name: RowName, texts: _Texts) -> list[Any]:
    """Return the module, the function and the dtype of a row as numbers of texts."""
    package, kernel, dtype = name
    module, _, function = kernel.rpartition(":")
    return [
        texts.number(visible(module or package or "flacheck")),
        texts.number(visible(function)),
        texts.number(dtype),
    ]


def _rule_texts(codes: Iterable[str]) -> dict[str, list[str]]:
    """Return title, cause and remedy of codes."""
    texts = {}
    for code in codes:
        if code in RULES:
            rule = RULES[code]
            texts[code] = [rule.title, rule.cause, rule.remedy]
    return texts


def _advisories_of(
    toolchain: str, target: str, advisories: Sequence[tuple[str, Sequence[str], str]]
) -> list[str]:
    out = []
    for release, targets, text in advisories:
        if release == short(toolchain) and (not targets or target in targets):
            out.append(text)
    return out


def _square_to_json(
    chart_square: ChartSquare | None, fallback: Sequence[str], texts: _Texts
) -> Any:
    """Return 0 for nothing, else a list: state, counts, marks, resources, and a failure's facts."""
    if chart_square is None or chart_square.example is None:
        return 0
    square = chart_square.square
    example = chart_square.example
    marks = _marks(chart_square)
    facts = [
        _LETTERS[chart_square.state],
        square.compiles,
        square.tested_count,
        marks,
        round(example.seconds, 1),
    ]
    for value in example.resources:
        facts.append(value or 0)
    incomplete = UNTESTED_CELLS | PARTLY_UNKNOWN | ACCEPTED_FAILURES
    if chart_square.state == "compiles" and not marks & incomplete:
        return facts
    words = [
        example.code or "",
        example.text,
        example.signature or "",
        example.options,
        *fallback,
    ]
    return [*facts, example.key, *map(texts.number, words)]


def _marks(chart_square: ChartSquare) -> int:
    square = chart_square.square
    marks = 0
    if square.slow:
        marks |= SLOW
    if chart_square.spills:
        marks |= SPILLS
    if square.untested_count:
        marks |= UNTESTED_CELLS
    if square.unknown:
        marks |= PARTLY_UNKNOWN
    failures = square.codes.total() + square.tolerated_codes.total()
    if failures > chart_square.blocking:
        marks |= ACCEPTED_FAILURES
    return marks
