"""Text that several reports share: counts, places, failures, fallbacks."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from flacheck.evidence.analysis.compiled_sizes import CompiledSizes
from flacheck.evidence.analysis.fallbacks import Fallback
from flacheck.evidence.analysis.groups import SignatureGroup
from flacheck.evidence.analysis.judgement import PackageFailure
from flacheck.evidence.analysis.order import (
    by_target,
    by_version,
    count_noun,
    kernel_name,
    settings,
    short,
    some,
)
from flacheck.evidence.analysis.untested_cells import UntestedGroup
from flacheck.evidence.measured.comparison import CardComparison
from flacheck.pipeline.fallbacks.constexprs import HOST
from flacheck.reports.document import Heading, Item, Labelled, Paragraph, Part, Tone
from flacheck.rules import RULES
from flacheck.rules.base import RuleVariant
from flacheck.rules.context import of_cell

# The number of list entries in a report for people; JSON has them all.
MAX_ITEMS = 20
# The number of kernels in a line: with their usual length it fits a page.
MAX_KERNELS = 4

T = TypeVar("T")
K = TypeVar("K")


def group_by(values: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return the values by key, in order of first appearance."""
    groups: dict[K, list[T]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return groups


def places_of(values: Iterable[Any]) -> str:
    """Return the releases and targets of values with a toolchain and a target."""
    pairs = [(each.toolchain, each.target) for each in values]
    return places(*sorted_places(pairs))


def beside(text: str, aside: str | None) -> str:
    """Return `text (aside)`, or the text alone without an aside."""
    if not aside:
        return text
    return f"{text} ({aside})"


def format_omitted(number: int, noun: str, limit: int = MAX_ITEMS) -> str:
    """Return how many entries a list omits after its first ones, or an empty text."""
    if number <= limit:
        return ""
    return f"{count_noun(number - limit, f'more {noun}')} omitted (--format json has all)"


def rest(number: int, noun: str) -> Iterator[Part]:
    """Yield the line below a shortened list."""
    if number > MAX_ITEMS:
        yield Paragraph(format_omitted(number, noun), Tone.FAINT)


def items(
    heading: str, lines: Iterable[str], tone: Tone = Tone.PLAIN, code: bool = False
) -> Iterator[Part]:
    """Yield a list under its heading; neither if no line exists."""
    for place, line in enumerate(lines):
        if not place:
            yield Heading(heading)
        yield Item(line, tone, code=code)


def list_stale(stale_kernels: Sequence[Mapping[str, Any]]) -> Iterator[Part]:
    """Yield kernels that changed after their capture, which the result does not cover."""
    if not stale_kernels:
        return
    yield Heading(f"Changed since captured: {count_noun(len(stale_kernels), 'kernel')}")
    for each in stale_kernels[:MAX_ITEMS]:
        text = beside(kernel_name(each["kernel"]), each["package"])
        yield Item(f"{text}: {'; '.join(each['why'])}", Tone.DOUBT)
    yield from rest(len(stale_kernels), "kernel")
    yield Paragraph("The answer is about these kernels as they were; capture them again.")


def places(toolchains: Sequence[str], targets: Sequence[str], between: str = " · ") -> str:
    """Return releases and targets: `3.2.0, 3.3.0 · sm80, sm90`."""
    return f"{', '.join(map(short, toolchains))}{between}{', '.join(targets)}"


def title_of(code: str) -> str:
    """Return a code with its rule's title, or alone if a newer flacheck stored it."""
    if code not in RULES:
        return code
    return f"{code} {RULES[code].title}"


def list_untested(entries: Sequence[UntestedGroup]) -> Iterator[Part]:
    """Yield untested cells by reason, with their kernels and places."""
    if not entries:
        return
    cells = sum(each.cells for each in entries)
    yield Heading("Not tested")
    yield Paragraph(
        f"{count_noun(cells, 'cell')} with arguments that flacheck made up: no evidence either way",
        Tone.FAINT,
    )
    by_reason = group_by(entries, lambda each: each.reason)
    for reason, alike in list(by_reason.items())[:MAX_ITEMS]:
        kernels: dict[str, None] = {}
        count = 0
        for each in alike:
            kernels[kernel_name(each.kernel)] = None
            count += each.cells
        names = ", ".join(some(list(kernels), MAX_KERNELS))
        yield Item(f"{count} × {reason}", notes=(f"{names} · {places_of(alike)}",))
    yield from rest(len(by_reason), "reason")


def name_sizes(sizes: CompiledSizes | None) -> str:
    """Return the sentence that names the compiled sizes; empty without any."""
    return f"Compiled: {sizes.text}." if sizes else ""


def list_package_failures(entries: Sequence[PackageFailure]) -> Iterator[Part]:
    """Yield the failures that every compiled release has, by their message."""
    by_message = group_by(entries, lambda each: f"{each.code} {each.line}".strip())
    lines = []
    for message, alike in list(by_message.items())[:MAX_ITEMS]:
        names = ", ".join(some([kernel_name(each.kernel) for each in alike], MAX_KERNELS))
        targets = sorted({target for each in alike for target in each.targets}, key=by_target)
        lines.append(f"{names} on {', '.join(targets)}: {message}")
    heading = "Fails under every compiled release: report it to the package"
    yield from items(heading, lines, Tone.DOUBT)
    yield from rest(len(by_message), "message")


def failures(groups: Iterable[SignatureGroup]) -> Iterator[Part]:
    """Yield each code with its signatures, its cause and its remedy."""
    by_code = group_by(groups, lambda each: each.code)
    if by_code:
        yield Heading("Failures")
    for code, alike in by_code.items():
        cells = f"· {count_noun(sum(group.count for group in alike), 'cell')}"
        if all(map(is_tolerated, alike)):
            yield Paragraph(title_of(code), Tone.DOUBT, f"{cells}, tolerated")
        else:
            yield Paragraph(title_of(code), Tone.BAD, cells)
        for group in alike[:MAX_ITEMS]:
            notes = (*instantiations(group), where(group))
            yield Item(group.line or "no message", notes=notes, code=True)
        yield from rest(len(alike), "signature")
        if code in RULES:
            texts = texts_of(alike[0])
            yield Labelled((("cause", texts.cause), ("remedy", texts.remedy)))


def is_tolerated(group: SignatureGroup) -> bool:
    """Return True if an autotuner would skip every cell of the group."""
    return group.tolerated_count == group.count


def instantiations(group: SignatureGroup) -> tuple[str, ...]:
    """Return the template arguments of a C++ failure as lines; of many the first few."""
    lines = [f"[with {arguments}]" for arguments in group.instantiations]
    return tuple(some(lines, MAX_KERNELS, "{} more instantiations"))


def texts_of(group: SignatureGroup) -> RuleVariant:
    """Return the cause and the remedy of a failure for its first compiler and GPU."""
    return RULES[group.code].texts_in(of_cell(group.toolchains[0], group.targets[0]))


def where(group: SignatureGroup) -> str:
    """Return cells, releases, targets and kernels in one line; of many kernels the first few."""
    names = list(dict.fromkeys(map(kernel_name, group.kernels)))
    kernels = ", ".join(some(names, MAX_KERNELS, "{} more kernels"))
    text = f"{group.count} × {places(group.toolchains, group.targets)} · {kernels}"
    if group.made_up == group.count:
        text += " · with made-up arguments"
    return text


@dataclass(frozen=True)
class Advice:
    """One set of fallbacks, with the failing settings, releases and targets that it applies to."""

    kernel: str
    failing: tuple[str, ...]
    uses: tuple[str, ...]
    toolchains: tuple[str, ...]
    targets: tuple[str, ...]


def advice(fallbacks: Iterable[Fallback]) -> list[Advice]:
    """Return the fallbacks without repetitions."""
    # The fallbacks of each failing cell, the nearest first.
    cells: dict[Any, list[Mapping[str, Any]]] = {}
    for each in fallbacks:
        cell = (each.kernel, each.package, each.toolchain, each.target, settings(each.failing))
        cells.setdefault(cell, []).append(_with_host(each))
    # The places where cells with these settings have the same fallbacks.
    spots: dict[Any, list[tuple[str, str]]] = {}
    for (kernel, package, toolchain, target, failing), options in cells.items():
        spot = (kernel, package, failing, _worth_saying(options))
        spots.setdefault(spot, []).append((toolchain, target))
    # The settings that fail in the same places and have the same fallbacks.
    alike: dict[Any, list[str]] = {}
    for (kernel, package, failing, uses), pairs in spots.items():
        key = (kernel, package, uses, *sorted_places(pairs))
        alike.setdefault(key, []).append(failing)
    entries = []
    for (kernel, _, uses, toolchains, targets), failing_settings in alike.items():
        entries.append(Advice(kernel, tuple(failing_settings), uses, toolchains, targets))
    return entries


def sorted_places(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the toolchains and the targets of (toolchain, target) pairs, sorted."""
    toolchains, targets = map(set, zip(*pairs))
    return tuple(sorted(toolchains, key=by_version)), tuple(sorted(targets, key=by_target))


def _with_host(fallback: Fallback) -> dict[str, Any]:
    """Return the changes of a fallback; changes in host code are marked."""
    changes = dict(fallback.use)
    for name, value in fallback.use.items():
        if fallback.marks.get(name) == HOST:
            changes[name] = f"{value} ({HOST})"
    return changes


def _worth_saying(uses: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the uses without those that only add to a nearer one."""
    useful: list[Mapping[str, Any]] = []
    for place, use in enumerate(uses):
        if not any(nearer.items() <= use.items() for nearer in uses[:place]):
            useful.append(use)
    return tuple(map(settings, useful))


def measured(comparisons: Iterable[CardComparison]) -> Iterator[Part]:
    """Yield what is slower or wrong under each release on each measured GPU."""
    for each in comparisons:
        tone = Tone.DOUBT if each.slower else Tone.PLAIN
        text = f"{short(each.after)} beside {short(each.before)}, {each.clause}"
        yield Item(text, Tone.BAD if each.wrong else tone)
