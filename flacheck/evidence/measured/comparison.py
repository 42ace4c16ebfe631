"""Two releases beside each other on one GPU: what is slower, and what computes something wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import convert, field

from flacheck.evidence.analysis.known_good import group_by_key
from flacheck.evidence.analysis.order import (
    by_version,
    count_noun,
    kernel_name,
    short,
    some,
    toolchain_label,
)
from flacheck.evidence.measured.ratios import kernel_ratios, operator_ratios
from flacheck.evidence.measured.results import LaunchResult, MeasureDocument, Ratio
from flacheck.model import Purpose
from flacheck.model.answer import Point
from flacheck.model.wire import JsonStruct, Natural, ToolchainName
from flacheck.store import Store

# The field of a run's context that holds its measurement.
FIELD = "measurement"
# Names in a sentence.
_MOST_NAMES = 2
# Letters whose names begin with a vowel: an H200, a B200.
_AN = "AEFHILMNORSX"


class WrongKernel(JsonStruct, frozen=True):
    """A kernel whose results are wrong under a release, with the reason."""

    kernel: str
    reason: str


class CardComparison(JsonStruct, frozen=True):
    """One release beside another in a measurement on one GPU.

    A ratio is the time under `to` by the time under `from`. `wrong` are kernels under `to`,
    `launches` the number of compared launches.
    """

    card: str
    driver: str
    date: str
    before: ToolchainName = field(name="from")
    after: ToolchainName = field(name="to")
    launches: Natural
    operators: tuple[Ratio, ...]
    kernels: tuple[Ratio, ...]
    wrong: tuple[WrongKernel, ...]

    @property
    def unit(self) -> str:
        """The name of what `ratios` are of."""
        return "operators" if self.operators else "kernels"

    @property
    def ratios(self) -> tuple[Ratio, ...]:
        """The ratios by operator, or by kernel if no operators are known."""
        return self.operators or self.kernels

    @property
    def slower(self) -> list[Ratio]:
        """The slower operators, those in fp32 last, each time the slowest first."""
        slower = [each for each in self.ratios if each.change == "slower"]
        return sorted(slower, key=lambda each: (each.dtype == "fp32", -each.ratio, each.name))

    @property
    def faster(self) -> list[Ratio]:
        """The faster operators."""
        return [each for each in self.ratios if each.change == "faster"]

    def beyond(self, most: float) -> list[Ratio]:
        """Return the slower operators whose ratio is above a limit, the slowest first."""
        return [each for each in self.slower if each.ratio > most]

    @property
    def clause(self) -> str:
        """The end of an answer's sentence: `on an H200: 2 of 63 operators slower (…), …`."""
        slower = f"{len(self.slower)} of {len(self.ratios)} {self.unit} slower"
        worst = [f"{label(each)} {each.ratio:.2f}" for each in self.slower[:_MOST_NAMES]]
        if worst:
            slower += f" ({', '.join(worst)})"
        outputs = "no wrong output"
        if self.wrong:
            first = kernel_name(self.wrong[0].kernel)
            outputs = f"{count_noun(len(self.wrong), 'kernel')} wrong ({first})"
        return f"on {with_article(self.card)}: {slower}, {len(self.faster)} faster, {outputs}"


class SlowOperator(JsonStruct, frozen=True):
    """An operator that takes longer on a GPU than under the release `beside`.

    `since` is the oldest release of an unbroken series in which it does.
    """

    operator: str
    dtype: str | None
    card: str
    ratio: float
    beside: ToolchainName
    since: ToolchainName


def slow_operators(
    by_release: Mapping[str, Iterable[CardComparison]], toolchain: str
) -> list[SlowOperator]:
    """Return the slower operators under a release, as `CardComparison.slower` orders them."""
    older = [each for each in by_release if by_version(each) < by_version(toolchain)]
    older.sort(key=by_version, reverse=True)
    slow: dict[tuple[str, str], SlowOperator] = {}
    for measured in by_release.get(toolchain, ()):
        alike = (measured.card, measured.before)
        for ratio in measured.slower:
            since = toolchain
            for release in older:
                others = [each for each in by_release[release] if (each.card, each.before) == alike]
                if others and not any(_is_slow(each, ratio) for each in others):
                    break
                since = release if others else since
            name, facts = short_name(ratio), (measured.card, ratio.ratio, measured.before, since)
            own = SlowOperator(name, ratio.dtype, *facts)
            slow.setdefault((label(ratio), measured.card), own)
    return sorted(slow.values(), key=lambda each: (each.dtype == "fp32", -each.ratio))


def _is_slow(comparison: CardComparison, ratio: Ratio) -> bool:
    """Return True if an operator is slower in another comparison."""
    return any((each.name, each.dtype) == (ratio.name, ratio.dtype) for each in comparison.slower)


def slow_points(slow: Iterable[SlowOperator]) -> list[Point]:
    """Return a point for each GPU with slower operators."""
    points = []
    groups = group_by_key(((each.card, each.beside), each) for each in slow)
    for (card, beside), own in groups.items():
        names = []
        for each in own:
            name = with_dtype(each.operator, each.dtype)
            names.append(f"{name} {each.ratio:.2f} since {short(each.since)}")
        text = f"slower than under {toolchain_label(beside)} on {with_article(card)}: "
        text += ", ".join(some(names, _MOST_NAMES))
        points.append(Point(text, "flacheck measure --shape measures at your sizes"))
    return points


def compare(
    documents: Iterable[MeasureDocument], base: str, other: str, subject: str | None = None
) -> list[CardComparison]:
    """Return the newest comparison of two releases on each GPU.

    Times of different measurements are never compared, because clocks and drivers differ.

    Args:
        documents: The measurements, oldest first.
        base: The release to compare with, `triton==3.6.0`.
        other: The other release.
        subject: The package, or the name of the launches file; None for any.
    """
    by_card: dict[str, CardComparison] = {}
    for document in documents:
        launches = list(_common_launches(document, base, other, subject))
        if launches:
            by_card[document.card.name] = _comparison(document, base, other, launches)
    return list(by_card.values())


def beside_first(
    documents: Iterable[MeasureDocument], release: str, subject: str | None = None
) -> list[CardComparison]:
    """Return the newest comparison on each GPU with the first release of its measurement."""
    by_card: dict[str, CardComparison] = {}
    for document in documents:
        first = document.toolchains[0]
        for each in compare([document], first, release, subject) if first != release else ():
            by_card[each.card] = each
    return list(by_card.values())


def slowdowns(comparisons: Iterable[CardComparison], most: float) -> list[str]:
    """Return a sentence for each GPU on which operators are slower than allowed."""
    sentences = []
    for each in comparisons:
        slow = [f"{label(ratio)} {ratio.ratio:.2f}" for ratio in each.beyond(most)]
        if slow:
            sentences.append(
                f"on {with_article(each.card)}, slower than under {each.before} by more than "
                f"{most:g}: {', '.join(slow)}"
            )
    return sentences


def _common_launches(
    document: MeasureDocument, base: str, other: str, subject: str | None
) -> Iterator[LaunchResult]:
    """Yield the launches of a subject that ran under both releases."""
    for launch in document.launches:
        if subject is not None and subject not in (launch.package, document.about):
            continue
        releases = {result.toolchain for result in launch.results if result.times is not None}
        if {base, other} <= releases or _wrong_under(launch, other):
            yield launch


def _wrong_under(launch: LaunchResult, toolchain: str) -> list[str]:
    """Return the reasons why results of a launch are wrong under a release."""
    reasons = []
    for result in launch.results:
        if result.toolchain == toolchain and result.is_wrong:
            reasons.append(result.reason or result.state.value)
    return reasons


def _comparison(
    document: MeasureDocument, base: str, other: str, launches: Sequence[LaunchResult]
) -> CardComparison:
    wrong: dict[str, str] = {}
    for launch in launches:
        for reason in _wrong_under(launch, other):
            wrong.setdefault(launch.kernel, reason)
    return CardComparison(
        card=document.card.name,
        driver=document.card.driver,
        date=document.date,
        before=base,
        after=other,
        launches=len(launches),
        operators=tuple(operator_ratios(launches, (base, other))),
        kernels=tuple(kernel_ratios(launches, (base, other))),
        wrong=tuple(WrongKernel(*each) for each in wrong.items()),
    )


def stored_measurements(store: Store) -> list[MeasureDocument]:
    """Return the measurements of a store, oldest first; one of another form is left out."""
    documents = []
    for run in store.runs():
        plain = run.context.get(FIELD)
        if run.purpose is not Purpose.MEASURE or plain is None:
            continue
        try:
            documents.append(convert(plain, MeasureDocument))
        except msgspec.ValidationError:
            # An older flacheck stored it; it can be measured again.
            continue
    return documents


def short_name(ratio: Ratio) -> str:
    """Return the last part of an operator's or a kernel's name."""
    return ratio.name.replace(":", ".").rpartition(".")[2]


def label(ratio: Ratio) -> str:
    """Return the short name of an operator or a kernel with its dtype."""
    return with_dtype(short_name(ratio), ratio.dtype)


def with_dtype(name: str, dtype: str | None) -> str:
    """Return a name with a dtype; bf16, in which models compute, is not named."""
    return name if dtype in (None, "bf16") else f"{name} in {dtype}"


def with_article(card: str) -> str:
    """Return a GPU's name with its article: `an H200`."""
    name = card.removeprefix("NVIDIA ")
    return f"{'an' if name[:1] in _AN else 'a'} {name}"
