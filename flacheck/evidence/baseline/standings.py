"""Conversion between the states of questions and a baseline.

The lines of a baseline are the counts of a standing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace as replace_fields
from itertools import cycle, islice

from msgspec.structs import replace

from flacheck.evidence.analysis.groups import UNCLASSIFIED
from flacheck.evidence.analysis.known_good import group_by_key
from flacheck.evidence.analysis.launch_evidence import find_blocking_failures
from flacheck.evidence.analysis.observation import LaunchParts, ObservedCell
from flacheck.evidence.analysis.order import by_target, by_version
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.analysis.standing_state import Share
from flacheck.evidence.baseline.form import (
    LINE,
    Baseline,
    BaselinePlace,
    BaselineQuestion,
    KnownFailure,
)
from flacheck.model import Question, Verdict, canonical, digest

# Parts of a selection that do not belong to a question: every release and GPU is a question of its
# own.
_PLACES = ("targets", "toolchains")
_UNTESTED = "untested when it was compiled"


def baseline_of(
    standings: Iterable[Standing], flacheck: str, accepted_releases: Iterable[str] = ()
) -> Baseline:
    """Return the standings as a baseline."""
    by_identity: dict[tuple[str, str], list[Standing]] = {}
    for standing in standings:
        by_identity.setdefault(identity(standing.question), []).append(standing)
    questions = map(_make_question, by_identity.values())
    return Baseline(
        flacheck=flacheck,
        accepted_releases=tuple(sorted(set(accepted_releases), key=by_version)),
        questions=_in_file_order(questions),
    )


def update(old: Baseline, new: Baseline) -> Baseline:
    """Return the old baseline updated with the new one.

    Other questions, and other releases and GPUs of the same question, stay as they were; a partial
    result does not replace a complete one.
    """
    questions = {question.identity: question for question in old.questions}
    for question in new.questions:
        before = questions.get(question.identity)
        if before is not None:
            question = _merge(before, question)
        questions[question.identity] = question
    return replace(
        new,
        questions=_in_file_order(questions.values()),
        accepted_releases=new.accepted_releases or old.accepted_releases,
    )


def standings_of(baseline: Baseline) -> list[Standing]:
    """Return the stored states of the questions as standings.

    A file holds counts, so each counted cell becomes a cell with the stored fields and a key of its
    own.
    """
    standings = []
    for question in baseline.questions:
        standings += [_make_standing(question, place) for place in question.places]
    return standings


def keys_digest(standing: Standing) -> str | None:
    """Return the digest of all keys on a place; None while some cell lacks a record."""
    if standing.is_partial:
        return None
    keys = (cell.key for cell in (*standing.cells, *standing.untested_cells))
    return digest(sorted(keys), 16)


def name_and_version(about: str) -> tuple[str, str | None]:
    """Return a package's name apart from its version; a matrix has a name only."""
    name, _, version = about.partition("==")
    return name, version or None


def identity(question: Question) -> tuple[str, str]:
    """Return the `BaselineQuestion.identity` that the question has in a baseline."""
    return name_and_version(question.about)[0], canonical(_select_narrowing(question))


def _select_narrowing(question: Question) -> dict[str, list[str | int]]:
    narrowing = {}
    for name in sorted(question.selection):
        if name not in _PLACES:
            narrowing[name] = list(question.selection[name])
    return narrowing


def _in_file_order(questions: Iterable[BaselineQuestion]) -> tuple[BaselineQuestion, ...]:
    # The whole question comes before parts of it.
    return tuple(sorted(questions, key=lambda one: (one.about, bool(one.selection), one.identity)))


def _by_place(place: BaselinePlace) -> tuple[object, ...]:
    return by_version(place.toolchain), by_target(place.target)


def _make_question(standings: Sequence[Standing]) -> BaselineQuestion:
    """Return one question with all its places."""
    question = standings[0].question
    kernels = list(map(_collect_kernels, standings))
    all_kernels = set[str]().union(*kernels)
    places = {}
    packages: set[str] = set()
    abouts: set[str] = set()
    for standing, own_kernels in zip(standings, kernels):
        # If one place has two captures, the last counts.
        places[standing.place] = _make_place(standing, all_kernels - own_kernels)
        packages |= standing.packages
        abouts.add(standing.question.about)
    return BaselineQuestion(
        about=name_and_version(question.about)[0],
        selection=_select_narrowing(question),
        # The question of a package stores its version place by place.
        packages=tuple(sorted(packages - abouts)),
        kernels=tuple(sorted(all_kernels)),
        places=tuple(sorted(places.values(), key=_by_place)),
    )


def _collect_kernels(standing: Standing) -> set[str]:
    kernels = set(standing.kernels)
    for cell in (*standing.cells, *standing.untested_cells):
        kernels.add(cell.kernel)
    return kernels


def _make_place(standing: Standing, without: Iterable[str]) -> BaselinePlace:
    # A file of one release cannot show that every release has a failure.
    standing = replace_fields(standing, package_keys=frozenset())
    failing = {cell.key for cell in standing.failing}
    further_count = len(failing - {cell.key for cell in find_blocking_failures(standing.cells)})
    compiles = made_up_for = 0
    skip_counts, open_counts = Counter[str](), Counter[str]()
    for cell in standing.cells:
        if cell.key in failing:
            continue
        if cell.compiles and not cell.partial:
            compiles += 1
        elif cell.launch in standing.compiled_launches:
            made_up_for += 1
        elif cell.verdict is Verdict.SKIPPED:
            skip_counts[cell.kernel] += 1
        else:
            open_counts[cell.kernel] += 1
    requested_count = standing.requested_count
    if requested_count is not None:
        requested_count += further_count
    untested_counts = Counter[str]()
    for cell in standing.untested_cells:
        untested_counts[cell.kernel] += 1
    return BaselinePlace(
        toolchain=standing.toolchain,
        target=standing.target,
        version=name_and_version(standing.question.about)[1],
        state=standing.state.value,
        requested_count=requested_count,
        answered_count=standing.answered_count + further_count,
        keys=keys_digest(standing),
        compiles=compiles,
        made_up_for=made_up_for,
        skip_counts=_sort_by_kernel(skip_counts),
        untested_counts=_sort_by_kernel(untested_counts),
        undecided_counts=_sort_by_kernel(open_counts),
        failures=tuple(_list_failures(standing.failing)),
        without=tuple(sorted(without)),
        unproven=tuple(sorted(_unproven_kernels(standing))),
        configurations=standing.configurations,
        kernels=standing.kernel_share,
    )


def _unproven_kernels(standing: Standing) -> set[str]:
    """Return the kernels with cells of which none compiles."""
    kernels = _collect_kernels(standing)
    for cell in (*standing.cells, *standing.further_cells):
        if cell.compiles and not cell.partial:
            kernels.discard(cell.kernel)
    return kernels


def _stored_shares(place: BaselinePlace) -> tuple[Share, Share] | None:
    if place.configurations is None or place.kernels is None:
        return None
    return place.configurations, place.kernels


def _sort_by_kernel(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items()))


def _list_failures(failing: Sequence[ObservedCell]) -> Iterator[KnownFailure]:
    by_signature = group_by_key((signature_of(cell), cell) for cell in failing)
    for signature in sorted(by_signature):
        cells = by_signature[signature]
        # The key decides, so that every machine takes the same line.
        example = min(cells, key=lambda cell: cell.key)
        yield KnownFailure(
            signature=signature,
            code=example.code or UNCLASSIFIED,
            stage=example.stage,
            line=example.line[:LINE],
            kernels=_sort_by_kernel(Counter(cell.kernel for cell in cells)),
        )


def signature_of(cell: ObservedCell) -> str:
    """Return the signature of a failing cell, else its code."""
    return cell.signature or cell.code or UNCLASSIFIED


def _merge(before: BaselineQuestion, after: BaselineQuestion) -> BaselineQuestion:
    """Return a question with its new places in place of the old ones."""
    places = {}
    for place in before.places:
        places[place.place] = place, before
    for place in after.places:
        old, _ = places.get(place.place, (None, before))
        if old is None or not (_is_partial(place) and not _is_partial(old)):
            places[place.place] = place, after
    kernels_on = {}
    for where, (place, question) in places.items():
        kernels_on[where] = set(question.kernels) - set(place.without)
    kernels = set[str]().union(*kernels_on.values())
    merged_places = []
    for where, (place, _) in places.items():
        without = tuple(sorted(kernels - kernels_on[where]))
        merged_places.append(replace(place, without=without))
    merged_places.sort(key=_by_place)
    return replace(after, kernels=tuple(sorted(kernels)), places=tuple(merged_places))


def _is_partial(place: BaselinePlace) -> bool:
    return place.requested_count is None or place.answered_count < place.requested_count


def _make_standing(question: BaselineQuestion, place: BaselinePlace) -> Standing:
    about = question.about
    if place.version is not None:
        about = f"{about}=={place.version}"
    cells = _Cells(about, question, place)
    return Standing(
        question=Question(about, question.selection),
        toolchain=place.toolchain,
        target=place.target,
        requested_count=place.requested_count,
        answered_count=place.answered_count,
        cells=tuple(cells.counting()),
        untested_cells=tuple(
            cells.each(place.untested_counts, Verdict.UNKNOWN, reason=_UNTESTED, made_up=True)
        ),
        kernels=frozenset(question.kernels) - set(place.without),
        stored_shares=_stored_shares(place),
        unproven_kernels=frozenset(place.unproven),
    )


class _Cells:
    """Cells created from counts, each under a key of its own."""

    def __init__(self, about: str, question: BaselineQuestion, place: BaselinePlace) -> None:
        packages: list[str | None] = [*question.packages]
        if place.version is not None:
            packages.insert(0, about)
        # A baseline does not store which kernel belongs to which package.
        self._packages = cycle(packages or [None])
        self._question, self._place = question, place
        self._count = 0

    def counting(self) -> Iterator[ObservedCell]:
        """Yield all cells that count."""
        place = self._place
        for failure in place.failures:
            yield from self.each(
                failure.kernels,
                Verdict.FAILS,
                code=failure.code,
                signature=failure.signature,
                stage=failure.stage,
                line=failure.line,
            )
        yield from self.each(place.undecided_counts, Verdict.UNKNOWN, reason="no verdict")
        yield from self.each(place.skip_counts, Verdict.SKIPPED)
        kernels = islice(cycle(self._compiled_kernels()), place.compiles)
        compiling = [self._cell(kernel, Verdict.COMPILES) for kernel in kernels]
        yield from compiling
        # These are other configs of the first launch: it compiles, so they do not count.
        for _ in range(place.made_up_for):
            self._count += 1
            key = f"{compiling[0].key} {self._count}"
            yield replace_fields(compiling[0], key=key, verdict=Verdict.UNKNOWN)

    def each(
        self, counts: Mapping[str, int], verdict: Verdict, **more: object
    ) -> Iterator[ObservedCell]:
        """Yield the cells of each kernel, each with a launch of its own."""
        for kernel, count in counts.items():
            for _ in range(count):
                yield self._cell(kernel, verdict, launch=f"{verdict.value} {self._count}", **more)

    def _compiled_kernels(self) -> list[str]:
        """Return the kernels that compile: those without any other entry."""
        place = self._place
        listed_kernels = {*place.without, *place.undecided_counts, *place.skip_counts}
        listed_kernels.update(place.unproven)
        for failure in place.failures:
            listed_kernels.update(failure.kernels)
        unlisted_kernels = [
            kernel for kernel in self._question.kernels if kernel not in listed_kernels
        ]
        return unlisted_kernels or list(self._question.kernels)

    def _cell(
        self, kernel: str, verdict: Verdict, launch: str = "compiles", **more: object
    ) -> ObservedCell:
        self._count += 1
        plain: dict[str, object] = {"code": None, "signature": None, "stage": None, "line": ""}
        return ObservedCell(
            key=f"baseline {self._question.identity} {self._place.place} {self._count}",
            kernel=kernel,
            package=next(self._packages),
            toolchain=self._place.toolchain,
            target=self._place.target,
            dtype=None,
            shape={},
            size="{}",
            parts=LaunchParts(launch, launch, {}),
            options={},
            call=launch,
            seconds=0.0,
            verdict=verdict,
            tolerated=False,
            **{**plain, **more},  # type: ignore[arg-type]
        )
