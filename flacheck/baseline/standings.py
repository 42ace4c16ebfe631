"""Between how questions stand and a baseline: the counts of the one are the lines of the other."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace as changed
from itertools import cycle, islice

from msgspec.structs import replace

from flacheck.analysis.groups import UNCLASSIFIED
from flacheck.analysis.known_good import group_by_key
from flacheck.analysis.observation import LaunchParts, ObservedCell
from flacheck.analysis.order import by_target, by_version
from flacheck.analysis.standing import Standing
from flacheck.baseline.form import (
    LINE,
    Baseline,
    BaselinePlace,
    BaselineQuestion,
    KnownFailure,
)
from flacheck.model import Question, Verdict, canonical, digest

# Parts of a selection that are no part of a question: every release and GPU is asked by itself.
_PLACES = ("targets", "toolchains")
_UNTESTED = "untested when the baseline was written"


def baseline_of(
    standings: Iterable[Standing], flacheck: str, accepted: Iterable[str] = ()
) -> Baseline:
    """What is known now, as a baseline."""
    named = ((identity(each.question), each) for each in standings)
    questions = [_question(there) for there in group_by_key(named).values()]
    return Baseline(
        flacheck=flacheck,
        accepted=tuple(sorted(set(accepted), key=by_version)),
        questions=_sorted(questions),
    )


def updated(old: Baseline, new: Baseline) -> Baseline:
    """The old baseline with what the new one says: other questions, and other releases and GPUs of
    the same question, stay as they were, and so does a whole answer beside a part of one."""
    questions = {question.identity: question for question in old.questions}
    for question in new.questions:
        before = questions.get(question.identity)
        if before is not None:
            question = _merged(before, question)
        questions[question.identity] = question
    return replace(
        new, questions=_sorted(questions.values()), accepted=new.accepted or old.accepted
    )


def standings_of(baseline: Baseline) -> list[Standing]:
    """How the questions stood, for whoever judges by standings.

    A file holds counts, so the cells are as many as were counted, each with what the file says of
    it, under keys of their own.
    """
    return [
        _standing(question, place) for question in baseline.questions for place in question.places
    ]


def keys_digest(standing: Standing) -> str | None:
    """The identity of what was asked on a place; None while some of it has no record."""
    if standing.is_partial:
        return None
    keys = (cell.key for cell in (*standing.cells, *standing.untested_cells))
    return digest(sorted(keys), 16)


def name_and_version(about: str) -> tuple[str, str | None]:
    """A package's name apart from its version; a matrix has none."""
    name, _, version = about.partition("==")
    return name, version or None


def identity(question: Question) -> tuple[str, str]:
    """Which question of a baseline it is: `BaselineQuestion.identity` of what it would be there."""
    return name_and_version(question.about)[0], canonical(_narrowing(question))


def _narrowing(question: Question) -> dict[str, list[str | int]]:
    names = (name for name in sorted(question.selection) if name not in _PLACES)
    return {name: list(question.selection[name]) for name in names}


def _sorted(questions: Iterable[BaselineQuestion]) -> tuple[BaselineQuestion, ...]:
    # The whole question before parts of it.
    return tuple(sorted(questions, key=lambda one: (one.about, bool(one.selection), one.identity)))


def _by_place(place: BaselinePlace) -> tuple[object, ...]:
    return by_version(place.toolchain), by_target(place.target)


def _question(standings: Sequence[Standing]) -> BaselineQuestion:
    """One question on all its places."""
    question = standings[0].question
    kernels = [_kernels(standing) for standing in standings]
    all_kernels = set[str]().union(*kernels)
    # Of two captures of one place the last counts.
    places = {
        standing.place: _place(standing, all_kernels - mine)
        for standing, mine in zip(standings, kernels)
    }
    packages = set[str]().union(*(standing.packages for standing in standings))
    return BaselineQuestion(
        about=name_and_version(question.about)[0],
        selection=_narrowing(question),
        # A package's own question says so by itself, place by place.
        packages=tuple(sorted(packages - {standing.question.about for standing in standings})),
        kernels=tuple(sorted(all_kernels)),
        places=tuple(sorted(places.values(), key=_by_place)),
    )


def _kernels(standing: Standing) -> set[str]:
    answered = {cell.kernel for cell in (*standing.cells, *standing.untested_cells)}
    return answered | standing.kernels


def _place(standing: Standing, without: Iterable[str]) -> BaselinePlace:
    failing = {cell.key for cell in standing.failing}
    compiled = {cell.launch for cell in standing.cells if cell.compiles and not cell.partial}
    compiles = made_up_for = 0
    skipped, undecided = Counter[str](), Counter[str]()
    for cell in standing.cells:
        if cell.key in failing:
            continue
        if cell.compiles and not cell.partial:
            compiles += 1
        elif cell.launch in compiled:
            made_up_for += 1
        elif cell.verdict is Verdict.SKIPPED:
            skipped[cell.kernel] += 1
        else:
            undecided[cell.kernel] += 1
    state: str = "no-record"
    if failing:
        state = "bad"
    elif standing.is_partial:
        state = "partial"
    elif compiles and not undecided and not skipped:
        state = "good"
    untested = Counter(cell.kernel for cell in standing.untested_cells)
    return BaselinePlace(
        toolchain=standing.toolchain,
        target=standing.target,
        version=name_and_version(standing.question.about)[1],
        state=state,  # type: ignore[arg-type]
        asked=standing.requested_count,
        answered=standing.answered_count,
        keys=keys_digest(standing),
        compiles=compiles,
        made_up_for=made_up_for,
        skipped=_in_order(skipped),
        untested=_in_order(untested),
        undecided=_in_order(undecided),
        failures=tuple(_failures(standing.failing)),
        without=tuple(sorted(without)),
    )


def _in_order(counts: Mapping[str, int]) -> dict[str, int]:
    return {kernel: counts[kernel] for kernel in sorted(counts)}


def _failures(failing: Sequence[ObservedCell]) -> Iterator[KnownFailure]:
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
            kernels=_in_order(Counter(cell.kernel for cell in cells)),
        )


def signature_of(cell: ObservedCell) -> str:
    """What a failing cell is known by."""
    return cell.signature or cell.code or UNCLASSIFIED


def _merged(before: BaselineQuestion, after: BaselineQuestion) -> BaselineQuestion:
    """A question with its new places in place of the old ones."""
    places = {place.place: (place, before) for place in before.places}
    for place in after.places:
        old, _ = places.get(place.place, (None, before))
        if old is None or not (_is_partial(place) and not _is_partial(old)):
            places[place.place] = place, after
    asked = {where: set(of.kernels) - set(place.without) for where, (place, of) in places.items()}
    kernels = set[str]().union(*asked.values())
    kept = [
        replace(place, without=tuple(sorted(kernels - asked[where])))
        for where, (place, _) in places.items()
    ]
    return replace(after, kernels=tuple(sorted(kernels)), places=tuple(sorted(kept, key=_by_place)))


def _is_partial(place: BaselinePlace) -> bool:
    return place.asked is None or place.answered < place.asked


def _standing(question: BaselineQuestion, place: BaselinePlace) -> Standing:
    about = question.about
    if place.version is not None:
        about = f"{about}=={place.version}"
    cells = _Cells(about, question, place)
    return Standing(
        question=Question(about, question.selection),
        toolchain=place.toolchain,
        target=place.target,
        requested_count=place.asked,
        answered_count=place.answered,
        cells=tuple(cells.counted()),
        untested_cells=tuple(
            cells.each(place.untested, Verdict.UNKNOWN, reason=_UNTESTED, made_up=True)
        ),
        kernels=frozenset(question.kernels) - set(place.without),
    )


class _Cells:
    """Cells made of counts, each under a key of its own."""

    def __init__(self, about: str, question: BaselineQuestion, place: BaselinePlace) -> None:
        packages: list[str | None] = [*question.packages]
        if place.version is not None:
            packages.insert(0, about)
        # Which kernel is of which package nobody asks of a baseline.
        self._packages = cycle(packages or [None])
        self._question, self._place = question, place
        self._made = 0

    def counted(self) -> Iterator[ObservedCell]:
        """All cells that count."""
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
        yield from self.each(place.undecided, Verdict.UNKNOWN, reason="no verdict")
        yield from self.each(place.skipped, Verdict.SKIPPED)
        kernels = islice(cycle(self._compiled_kernels()), place.compiles)
        compiling = [self._cell(kernel, Verdict.COMPILES) for kernel in kernels]
        yield from compiling
        # Another config of the first launch: it compiles, so these count for nothing.
        for _ in range(place.made_up_for):
            self._made += 1
            key = f"{compiling[0].key} {self._made}"
            yield changed(compiling[0], key=key, verdict=Verdict.UNKNOWN)

    def each(
        self, counts: Mapping[str, int], verdict: Verdict, **more: object
    ) -> Iterator[ObservedCell]:
        """So many cells of each kernel, each of a launch of its own."""
        for kernel, count in counts.items():
            for _ in range(count):
                yield self._cell(kernel, verdict, launch=f"{verdict.value} {self._made}", **more)

    def _compiled_kernels(self) -> list[str]:
        """The kernels of the cells that compile: those of which nothing else is said."""
        place = self._place
        told = {*place.without, *place.undecided, *place.skipped}
        told.update(kernel for failure in place.failures for kernel in failure.kernels)
        silent = [kernel for kernel in self._question.kernels if kernel not in told]
        return silent or list(self._question.kernels)

    def _cell(
        self, kernel: str, verdict: Verdict, launch: str = "compiles", **more: object
    ) -> ObservedCell:
        self._made += 1
        plain: dict[str, object] = {"code": None, "signature": None, "stage": None, "line": ""}
        return ObservedCell(
            key=f"baseline {self._question.about} {self._place.place} {self._made}",
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
