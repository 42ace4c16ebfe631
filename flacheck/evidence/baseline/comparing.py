"""Comparison of the present state with a baseline: new, fixed and incomparable failures."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec import field

from flacheck.evidence.analysis.known_good import group_by_key
from flacheck.evidence.analysis.observation import ObservedCell
from flacheck.evidence.analysis.order import by_target, by_version, short, some, toolchain_label
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.baseline.form import Baseline, BaselinePlace, BaselineQuestion
from flacheck.evidence.baseline.standings import (
    identity,
    keys_digest,
    name_and_version,
    signature_of,
)
from flacheck.model.wire import JsonStruct, Natural, ToolchainName

# Releases or questions that a note lists before it counts the rest.
_MOST_LISTED = 4


class ChangedFailure(JsonStruct, frozen=True):
    """A failure that is new, or that is gone."""

    toolchain: ToolchainName
    target: str
    kernel: str
    signature: str
    line: str = ""


class BaselineComparison(JsonStruct, frozen=True):
    """The changes since a baseline.

    `new` are failures that the baseline lacks, `known` is the number of failing cells that it
    contains, `mended` are its failures that are gone; `notes` describe where it is of another
    flacheck, package or capture.
    """

    file: str
    new: tuple[ChangedFailure, ...] = ()
    known_count: Natural = field(name="known", default=0)
    fixed_failures: tuple[ChangedFailure, ...] = field(name="mended", default=())
    notes: tuple[str, ...] = ()


def contains_failure(baseline: Baseline, cell: ObservedCell) -> bool:
    """Return True if the baseline contains the failure of a cell."""
    return _failure_key(cell) in baseline.failures


def _failure_key(cell: ObservedCell) -> tuple[str, str, str, str]:
    """Return the key of a failing cell in a baseline."""
    return (*cell.place, cell.kernel, signature_of(cell))


def compare(
    baseline: Baseline, standings: Sequence[Standing], file: str, flacheck: str
) -> BaselineComparison:
    """Return the failures that are new since the baseline, and those that are gone.

    A failure is gone if its place was answered completely and nothing fails with its signature in
    its kernel any more.
    """
    now: set[tuple[str, str, str, str]] = set()
    new: dict[tuple[str, str, str, str], ChangedFailure] = {}
    known_count = 0
    for standing in standings:
        for cell in standing.failing:
            key = _failure_key(cell)
            now.add(key)
            if contains_failure(baseline, cell):
                known_count += 1
            else:
                new.setdefault(key, ChangedFailure(*key, cell.line))
    return BaselineComparison(
        file=file,
        new=_in_file_order(new.values()),
        known_count=known_count,
        fixed_failures=_in_file_order(_find_fixed(baseline, standings, now)),
        notes=tuple(notes(baseline, standings, file, flacheck)),
    )


def notes(
    baseline: Baseline, standings: Sequence[Standing], file: str, flacheck: str
) -> Iterator[str]:
    """Yield where a baseline is of another flacheck, package or capture than the standings."""
    if baseline.flacheck != flacheck:
        yield (
            f"{file} was written by flacheck {baseline.flacheck}, this is {flacheck}: "
            "a failure may have another signature"
        )
    questions = {question.identity: question for question in baseline.questions}
    by_question = group_by_key((identity(standing.question), standing) for standing in standings)
    for question_id, there in by_question.items():
        if question_id in questions:
            yield from _note_other_captures(questions[question_id], there, file)
            continue
        name = there[0].question.name
        about = list(map(_describe_question, baseline.questions))
        listing = "; ".join(some(about, _MOST_LISTED)) or "nothing"
        yield f"{file} is not about {name}; it is about {listing}"


def _describe_question(question: BaselineQuestion) -> str:
    versions = set()
    for place in question.places:
        if place.version:
            versions.add(place.version)
    if not versions:
        return question.about
    return f"{question.about}=={', '.join(sorted(versions, key=by_version))}"


def _note_other_captures(
    question: BaselineQuestion, standings: Iterable[Standing], file: str
) -> Iterator[str]:
    """Yield notes on each other version of the package and on other captures, with releases."""
    places = {place.place: place for place in question.places}
    versions: dict[tuple[str | None, str | None], list[Standing]] = {}
    captures: list[Standing] = []
    missing: list[Standing] = []
    for standing in standings:
        place = places.get(standing.place)
        version = name_and_version(standing.question.about)[1]
        if place is None:
            missing.append(standing)
        elif _is_same_capture(place, standing):
            continue
        elif place.version != version:
            versions.setdefault((place.version, version), []).append(standing)
        else:
            captures.append(standing)
    for (before, now), there in versions.items():
        yield (
            f"{file} is of {question.about}=={before} on {_describe_places(there)}, this is {now}: "
            "failures are compared by kernel and signature"
        )
    if captures:
        yield (
            f"{file} is of another capture of {question.about} on {_describe_places(captures)}: "
            "it has other cells; failures are compared by kernel and signature"
        )
    if missing:
        yield f"{file} contains nothing about {question.about} on {_describe_places(missing)}"


def _is_same_capture(place: BaselinePlace, standing: Standing) -> bool:
    """Return True if both have the same cells, as far as both are known."""
    keys = keys_digest(standing)
    if keys is None or place.keys is None:
        return place.version == name_and_version(standing.question.about)[1]
    return place.keys == keys


def _describe_places(standings: Iterable[Standing]) -> str:
    """Return `Triton 3.2.0, 3.3.0 (sm90)`."""
    toolchains: dict[str, set[str]] = {}
    for standing in standings:
        toolchains.setdefault(standing.target, set()).add(standing.toolchain)
    parts = []
    for target in sorted(toolchains, key=by_target):
        first, *others = sorted(toolchains[target], key=by_version)
        names = [toolchain_label(first), *map(short, others)]
        parts.append(f"{', '.join(some(names, _MOST_LISTED))} ({target})")
    return "; ".join(parts)


def _find_fixed(
    baseline: Baseline,
    standings: Sequence[Standing],
    failing: Collection[tuple[str, str, str, str]],
) -> Iterator[ChangedFailure]:
    answered_kernels: set[tuple[str, str, str]] = set()
    for standing in standings:
        if not standing.is_partial:
            for cell in standing.cells:
                answered_kernels.add((*standing.place, cell.kernel))
    for key, line in baseline.failures.items():
        if key not in failing and key[:3] in answered_kernels:
            yield ChangedFailure(*key, line)


def _in_file_order(failures: Iterable[ChangedFailure]) -> tuple[ChangedFailure, ...]:
    return tuple(sorted(failures, key=_in_order))


def _in_order(failure: ChangedFailure) -> tuple[object, ...]:
    place = by_version(failure.toolchain), by_target(failure.target)
    return *place, failure.kernel, failure.signature
