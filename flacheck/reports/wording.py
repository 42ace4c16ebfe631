"""How counts, places and advice are said, in every format for people alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flacheck.analysis import RunView, Square, Summary
from flacheck.analysis.fallbacks import Fallback
from flacheck.analysis.grid import Row
from flacheck.analysis.groups import SignatureGroup
from flacheck.analysis.known_good import grouped
from flacheck.analysis.order import by_target, by_version, kernel_name, settings, short, some
from flacheck.analysis.slow import CODE as SLOW
from flacheck.fallbacks import HOST
from flacheck.model import Record, Verdict
from flacheck.rules import RULES
from flacheck.tables.targets import TARGETS

LEGEND = "8/12: 8 of 12 compile · FC… fails · (FC…) fails, but an autotuner passes over it · ? unknown · – skipped"
NAMED = 4


@dataclass(frozen=True)
class Reason:
    """Why cells are unknown or skipped."""

    text: str
    code: str | None
    count: int
    toolchains: tuple[str, ...]
    targets: tuple[str, ...]


@dataclass(frozen=True)
class Advice:
    """One set of fallbacks, with all failing settings, releases and targets that it is the same
    for.
    """

    kernel: str
    package: str | None
    failing: tuple[str, ...]
    uses: tuple[str, ...]
    toolchains: tuple[str, ...]
    targets: tuple[str, ...]


def counts(summary: Summary) -> str:
    """One line with how many cells ended how."""
    tally = summary.tally
    tolerated = sum(group.tolerated for group in summary.by_signature)
    passed = [
        f"{count} {word}"
        for count, word in ((tolerated, "tolerated"), (tally.waived, "waived"))
        if count
    ]
    parts = [
        f"{tally.compiles} compile" + (f" ({len(summary.slow)} slow)" if summary.slow else ""),
        f"{tally.fails} fail" + (f" ({', '.join(passed)})" if passed else ""),
        f"{tally.unknown} unknown",
        f"{tally.skipped} skipped",
    ]
    return f"{tally.total} cells: " + ", ".join(part for part in parts if not part.startswith("0 "))


def square_lines(square: Square | None) -> list[str]:
    """A square of the matrix in a few short lines; empty where nothing was asked."""
    if square is None:
        return [""]
    if not square.asked:
        return ["–"]
    if square.unknown == square.asked:
        return ["?"]
    passed = [
        code if not square.compiles else f"({code})" for code, _ in square.tolerated.most_common()
    ]
    codes = some([code for code, _ in square.codes.most_common()] + passed, 2, "+{}")
    rest = [word for word, count in (("slow", square.slow), ("?", square.unknown)) if count]
    return [f"{square.compiles}/{square.asked}", *codes, *rest]


def is_perfect(row: Row, toolchains: Sequence[str]) -> bool:
    """Whether every cell of a kernel compiles on each of these releases."""
    return all(toolchain in row and row[toolchain].perfect for toolchain in toolchains)


def title_of(view: RunView, code: str) -> str:
    """A code's title, empty for a code that nobody knows."""
    rule = RULES.get(code)
    return rule.title if rule else ""


def by_code(groups: Iterable[SignatureGroup]) -> Mapping[str, list[SignatureGroup]]:
    """The signatures under their codes, in the order in which the codes first come."""
    return grouped((group.code, group) for group in groups)


def target_name(target: str) -> str:
    """A target, with the word for those whose verdicts were never compared with a card."""
    row = TARGETS.get(target)
    return f"{target} (experimental)" if row and row.experimental else target


def where(toolchains: Sequence[str], targets: Sequence[str], kernels: Sequence[str]) -> str:
    """Releases, targets and kernels in one line; of many kernels the first few."""
    names = list(dict.fromkeys(map(kernel_name, kernels)))
    shown = (
        names if len(names) <= NAMED + 1 else [*names[:NAMED], f"{len(names) - NAMED} more kernels"]
    )
    return " · ".join([", ".join(map(short, toolchains)), ", ".join(targets), ", ".join(shown)])


def reasons(view: RunView, verdict: Verdict) -> list[Reason]:
    """Why cells have this verdict, the most frequent reason first."""
    if not getattr(view.summary.tally, verdict.value):
        return []
    cells = (record for record in view.records() if record.verdict is verdict)
    found = grouped(
        ((record.reason or "no reason recorded", record.code), _place(record)) for record in cells
    )
    made = [
        Reason(text, code, len(places), *_sorted_places(places))
        for (text, code), places in found.items()
    ]
    return sorted(made, key=lambda reason: (-reason.count, reason.text))


def advice(fallbacks: Iterable[Fallback]) -> list[Advice]:
    """Fallbacks put together: first by the cells that fail alike in several places, then by what
    helps them.
    """
    cells = grouped(
        ((f.kernel, f.package, f.toolchain, f.target, settings(f.failing)), _told(f))
        for f in fallbacks
    )
    places = grouped(
        ((kernel, package, failing, _worth_saying(uses)), (toolchain, target))
        for (kernel, package, toolchain, target, failing), uses in cells.items()
    )
    alike = grouped(
        ((kernel, package, uses, _sorted_places(found)), failing)
        for (kernel, package, failing, uses), found in places.items()
    )
    return [
        Advice(kernel, package, tuple(failing), uses, toolchains, targets)
        for (kernel, package, uses, (toolchains, targets)), failing in alike.items()
    ]


def _told(found: Fallback) -> dict[str, Any]:
    """What changes, with a word where it is host code that has to change."""
    host = {
        name: f"{value} ({HOST})"
        for name, value in found.use.items()
        if found.marks.get(name) == HOST
    }
    return {**found.use, **host}


def slow(view: RunView) -> Iterator[tuple[str, str]]:
    """The slow compiles: how slow, and which cell."""
    for record in view.records() if view.summary.slow else ():
        for finding in record.findings:
            if finding["code"] == SLOW:
                facts = finding["facts"]
                cell = (
                    short(record.toolchain),
                    record.target,
                    kernel_name(record.kernel),
                    record.dtype or "",
                )
                said = f"{facts['seconds']:.1f} s, elsewhere {facts['median']:.1f} s"
                yield said, " · ".join(filter(None, (*cell, settings(record.options))))


def reached(view: RunView) -> list[str]:
    """From which sequence length a kernel with an autotuner fault is reached, and by which layer."""
    said = {}
    for record in (
        view.records()
        if any(group.code.startswith("FC6") for group in view.summary.by_signature)
        else ()
    ):
        facts = record.findings[0]["facts"] if record.findings else {}
        if facts.get("first_length") is not None:
            layers = [
                _layer(reach)
                for reach in facts["reached_by"]
                if reach["training"] == facts["first_length"]
            ]
            through = f" through {', '.join(some(layers, 2))}" if layers else ""
            name = f"{kernel_name(record.kernel)} ({record.package})"
            said[name] = f"{name}: from sequence length {facts['first_length']}{through}"
    return list(said.values())


def _layer(reach: Mapping[str, Any]) -> str:
    place = f" ({reach['file']}:{reach['line']})" if reach["line"] else ""
    return f"{reach['layer'].rpartition(':')[2]}{place}"


def next_commands(view: RunView) -> tuple[str, ...]:
    """What to type next: what the first failure means, which releases have it, the same report for
    others to read.
    """
    share = f"flacheck report {view.run['id']} --format markdown"
    first = view.summary.by_signature[:1]
    about = [
        (f"flacheck explain {group.code}", f"flacheck bisect {group.example[:12]}")
        for group in first
    ]
    return (*(command for commands in about for command in commands), share)


def _worth_saying(uses: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The uses without those that only add to a nearer one."""
    kept = [
        use
        for n, use in enumerate(uses)
        if not any(nearer.items() <= use.items() for nearer in uses[:n])
    ]
    return tuple(map(settings, kept))


def _place(record: Record) -> tuple[str, str]:
    return record.toolchain, record.target


def _sorted_places(places: Iterable[tuple[str, str]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    toolchains, targets = zip(*places)
    return tuple(sorted(set(toolchains), key=by_version)), tuple(
        sorted(set(targets), key=by_target)
    )
