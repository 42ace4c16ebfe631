"""What several reports say in the same words: counts, places, failures, fallbacks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flacheck.analysis.fallbacks import Fallback
from flacheck.analysis.groups import SignatureGroup
from flacheck.analysis.known_good import group_by_key
from flacheck.analysis.order import (
    by_target,
    by_version,
    count_noun,
    kernel_name,
    settings,
    short,
    some,
)
from flacheck.analysis.untested_cells import UntestedGroup
from flacheck.fallbacks.constexprs import HOST
from flacheck.reports.document import Heading, Item, Labelled, Paragraph, Part, Tone
from flacheck.rules import RULES

# How many entries of a list a report for people holds; JSON has them all.
SHOWN = 20
# How many kernels a line names: with their usual length it fits a page.
NAMED = 4


def beside(text: str, aside: str | None) -> str:
    """`text (aside)`, the text alone where there is nothing beside it."""
    if not aside:
        return text
    return f"{text} ({aside})"


def omitted(number: int, noun: str, shown: int = SHOWN) -> str:
    """What a list does not show after its first entries, nothing where it shows all."""
    if number <= shown:
        return ""
    return f"{count_noun(number - shown, f'more {noun}')} omitted (--format json has all)"


def rest(number: int, noun: str) -> Iterator[Part]:
    """The line below a list that was cut."""
    if number > SHOWN:
        yield Paragraph(omitted(number, noun), Tone.FAINT)


def items(
    heading: str, lines: Iterable[str], tone: Tone = Tone.PLAIN, code: bool = False
) -> Iterator[Part]:
    """A list under its heading; neither where there is no line."""
    for place, line in enumerate(lines):
        if not place:
            yield Heading(heading)
        yield Item(line, tone, code=code)


def stale(changed: Sequence[Mapping[str, Any]]) -> Iterator[Part]:
    """Kernels that have changed since they were captured, of which the answer knows nothing."""
    if not changed:
        return
    yield Heading(f"Changed since captured: {count_noun(len(changed), 'kernel')}")
    for each in changed[:SHOWN]:
        said = beside(kernel_name(each["kernel"]), each["package"])
        yield Item(f"{said}: {'; '.join(each['why'])}", Tone.DOUBT)
    yield from rest(len(changed), "kernel")
    yield Paragraph("The answer is about these kernels as they were; capture them again.")


def places(toolchains: Sequence[str], targets: Sequence[str], between: str = " · ") -> str:
    """`3.2.0, 3.3.0 · sm80, sm90`."""
    return f"{', '.join(map(short, toolchains))}{between}{', '.join(targets)}"


def title_of(code: str) -> str:
    """A code with its rule's title; a code that a newer flacheck stored stands alone."""
    if code not in RULES:
        return code
    return f"{code} {RULES[code].title}"


def untested(entries: Sequence[UntestedGroup]) -> Iterator[Part]:
    """What flacheck could not test, by reason, with the kernels and where."""
    if not entries:
        return
    cells = sum(each.cells for each in entries)
    yield Heading("Not tested")
    yield Paragraph(
        f"{count_noun(cells, 'cell')} with arguments that flacheck made up: no evidence either way",
        Tone.FAINT,
    )
    by_reason = group_by_key((each.reason, each) for each in entries)
    for reason, alike in list(by_reason.items())[:SHOWN]:
        kernels = list(dict.fromkeys(kernel_name(each.kernel) for each in alike))
        where = places(*sorted_places([(each.toolchain, each.target) for each in alike]))
        count = sum(each.cells for each in alike)
        yield Item(f"{count} × {reason}", notes=(f"{', '.join(some(kernels, NAMED))} · {where}",))
    yield from rest(len(by_reason), "reason")


def failures(groups: Iterable[SignatureGroup]) -> Iterator[Part]:
    """Each code with its signatures, its cause and its remedy."""
    for place, (code, alike) in enumerate(
        group_by_key((each.code, each) for each in groups).items()
    ):
        if not place:
            yield Heading("Failures")
        cells = f"· {count_noun(sum(group.count for group in alike), 'cell')}"
        if all(map(is_tolerated, alike)):
            yield Paragraph(title_of(code), Tone.DOUBT, f"{cells}, tolerated")
        else:
            yield Paragraph(title_of(code), Tone.BAD, cells)
        for group in alike[:SHOWN]:
            yield Item(group.line or "no message", notes=(where(group),), code=True)
        yield from rest(len(alike), "signature")
        if code in RULES:
            yield Labelled((("cause", RULES[code].cause), ("remedy", RULES[code].remedy)))


def is_tolerated(group: SignatureGroup) -> bool:
    """Whether an autotuner would skip every cell that fails like this."""
    return group.tolerated_count == group.count


def where(group: SignatureGroup) -> str:
    """Cells, releases, targets and kernels in one line; of many kernels the first few."""
    names = list(dict.fromkeys(map(kernel_name, group.kernels)))
    kernels = ", ".join(some(names, NAMED, "{} more kernels"))
    said = f"{group.count} × {places(group.toolchains, group.targets)} · {kernels}"
    if group.made_up == group.count:
        said += " · with made-up arguments"
    return said


@dataclass(frozen=True)
class Advice:
    """One set of fallbacks, with all failing settings, releases and targets that it holds for."""

    kernel: str
    failing: tuple[str, ...]
    uses: tuple[str, ...]
    toolchains: tuple[str, ...]
    targets: tuple[str, ...]


def advice(fallbacks: Iterable[Fallback]) -> list[Advice]:
    """Fallbacks put together, so that each is read once."""
    # What helps one failing cell, the nearest first.
    cells = group_by_key(
        ((f.kernel, f.package, f.toolchain, f.target, settings(f.failing)), _with_host(f))
        for f in fallbacks
    )
    # Where cells with these settings fail that the same helps.
    spots = group_by_key(
        ((kernel, package, failing, _worth_saying(uses)), (toolchain, target))
        for (kernel, package, toolchain, target, failing), uses in cells.items()
    )
    # Which settings fail in the same places and are helped by the same.
    alike = group_by_key(
        ((kernel, package, uses, *sorted_places(pairs)), failing)
        for (kernel, package, failing, uses), pairs in spots.items()
    )
    return [
        Advice(kernel, tuple(failing), uses, toolchains, targets)
        for (kernel, _, uses, toolchains, targets), failing in alike.items()
    ]


def sorted_places(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The toolchains and the targets of (toolchain, target) pairs, each once and in order."""
    toolchains, targets = map(set, zip(*pairs))
    return tuple(sorted(toolchains, key=by_version)), tuple(sorted(targets, key=by_target))


def _with_host(fallback: Fallback) -> dict[str, Any]:
    """What changes, with a word where it is host code that has to change."""
    on_host = [name for name in fallback.use if fallback.marks.get(name) == HOST]
    return {**fallback.use, **{name: f"{fallback.use[name]} ({HOST})" for name in on_host}}


def _worth_saying(uses: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The uses without those that only add to a nearer one."""
    kept: list[Mapping[str, Any]] = []
    for place, use in enumerate(uses):
        if not any(nearer.items() <= use.items() for nearer in uses[:place]):
            kept.append(use)
    return tuple(map(settings, kept))
