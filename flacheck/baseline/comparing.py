"""What is known now against a baseline: new failures, mended ones, and what is not comparable."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

from flacheck.analysis.known_good import group_by_key
from flacheck.analysis.observation import ObservedCell
from flacheck.analysis.order import by_target, by_version, short, some, toolchain_label
from flacheck.analysis.standing import Standing
from flacheck.baseline.form import Baseline, BaselinePlace, BaselineQuestion
from flacheck.baseline.standings import identity, keys_digest, name_and_version, signature_of
from flacheck.model import Json

# Releases or questions that a note names before it counts the rest.
_NAMED = 4


@dataclass(frozen=True, order=True)
class ChangedFailure:
    """A failure that is new, or that is gone."""

    toolchain: str
    target: str
    kernel: str
    signature: str
    line: str = ""


@dataclass(frozen=True)
class BaselineComparison:
    """What became of a baseline's failures; `known` counts the failing cells that it knows. `notes`
    say where the baseline is about something else."""

    file: str
    new: tuple[ChangedFailure, ...] = ()
    known_count: int = 0
    fixed_failures: tuple[ChangedFailure, ...] = ()
    notes: tuple[str, ...] = ()

    def to_json(self) -> Json:
        """What flacheck.run/1 says of it."""
        return {
            "file": self.file,
            "new": [asdict(failure) for failure in self.new],
            "known": self.known_count,
            "mended": [asdict(failure) for failure in self.fixed_failures],
            "notes": list(self.notes),
        }


def knows(baseline: Baseline, cell: ObservedCell) -> bool:
    """Whether a failing cell fails as the baseline says."""
    return any(key in baseline.failures for key in _keys(cell))


def _keys(cell: ObservedCell) -> list[tuple[str, str, str, str]]:
    """What a baseline may know a failing cell by: as it fails today, and by what an older flacheck
    made of that."""
    signatures = [signature_of(cell), *filter(None, [cell.formerly])]
    return [(*cell.place, cell.kernel, signature) for signature in signatures]


def compare(
    baseline: Baseline, standings: Sequence[Standing], file: str, flacheck: str
) -> BaselineComparison:
    """The failures that the standings have and the baseline has not, and the other way round.

    A failure is mended where its place was asked as a whole and nothing fails with its signature in
    its kernel any more.
    """
    now: set[tuple[str, str, str, str]] = set()
    new: dict[tuple[str, str, str, str], str] = {}
    known = 0
    for standing in standings:
        for cell in standing.failing:
            keys = _keys(cell)
            now.update(keys)
            if knows(baseline, cell):
                known += 1
            else:
                new.setdefault(keys[0], cell.line)
    return BaselineComparison(
        file=file,
        new=tuple(sorted((ChangedFailure(*key, line) for key, line in new.items()), key=_in_order)),
        known_count=known,
        fixed_failures=tuple(sorted(_fixed_failures(baseline, standings, now), key=_in_order)),
        notes=tuple(notes(baseline, standings, file, flacheck)),
    )


def notes(
    baseline: Baseline, standings: Sequence[Standing], file: str, flacheck: str
) -> Iterator[str]:
    """Where a baseline is of another flacheck, package or capture than what is asked now."""
    if baseline.flacheck != flacheck:
        yield (
            f"{file} was written by flacheck {baseline.flacheck}, this is {flacheck}: "
            "a failure may have another signature"
        )
    questions = {question.identity: question for question in baseline.questions}
    by_question = group_by_key((identity(standing.question), standing) for standing in standings)
    for asked, there in by_question.items():
        name = there[0].question.name
        if asked not in questions:
            about = [_name(question) for question in baseline.questions]
            said = "; ".join(some(about, _NAMED)) or "nothing"
            yield f"{file} is not about {name}; it is about {said}"
            continue
        yield from _other_captures(questions[asked], there, file)


def _name(question: BaselineQuestion) -> str:
    versions = sorted({place.version for place in question.places if place.version}, key=by_version)
    if not versions:
        return question.about
    return f"{question.about}=={', '.join(versions)}"


def _other_captures(
    question: BaselineQuestion, standings: Iterable[Standing], file: str
) -> Iterator[str]:
    """Of each version of the package that differs, and of each capture, on which releases."""
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
            f"{file} is of {question.about}=={before} on {_where(there)}, this is {now}: "
            "failures are compared by kernel and signature"
        )
    if captures:
        yield (
            f"{file} is of another capture of {question.about} on {_where(captures)}: "
            "it asked other cells; failures are compared by kernel and signature"
        )
    if missing:
        yield f"{file} says nothing of {question.about} on {_where(missing)}"


def _is_same_capture(place: BaselinePlace, standing: Standing) -> bool:
    """Whether both asked the same cells, as far as both know which."""
    keys = keys_digest(standing)
    if keys is None or place.keys is None:
        return place.version == name_and_version(standing.question.about)[1]
    return place.keys == keys


def _where(standings: Iterable[Standing]) -> str:
    """`Triton 3.2.0, 3.3.0 (sm90)`."""
    by_target_of = group_by_key((standing.target, standing.toolchain) for standing in standings)
    said = []
    for target in sorted(by_target_of, key=by_target):
        first, *others = sorted(set(by_target_of[target]), key=by_version)
        names = [toolchain_label(first), *map(short, others)]
        said.append(f"{', '.join(some(names, _NAMED))} ({target})")
    return "; ".join(said)


def _fixed_failures(
    baseline: Baseline,
    standings: Sequence[Standing],
    failing: Collection[tuple[str, str, str, str]],
) -> Iterator[ChangedFailure]:
    asked = {
        (*standing.place, cell.kernel)
        for standing in standings
        if not standing.is_partial
        for cell in standing.cells
    }
    for key, line in baseline.failures.items():
        if key not in failing and key[:3] in asked:
            yield ChangedFailure(*key, line)


def _in_order(failure: ChangedFailure) -> tuple[object, ...]:
    place = by_version(failure.toolchain), by_target(failure.target)
    return *place, failure.kernel, failure.signature
