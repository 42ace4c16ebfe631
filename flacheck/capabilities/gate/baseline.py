"""A gate's evidence with a baseline in place of what the store does not know."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from flacheck.analysis.observation import ObservedCell
from flacheck.analysis.order import by_version, some, split
from flacheck.analysis.standing import Standing
from flacheck.baseline.comparing import contains_failure, notes
from flacheck.baseline.form import Baseline
from flacheck.baseline.standings import identity, name_and_version, standings_of
from flacheck.capabilities.gate.evidence import BaselineUse, Evidence, RecordFilter
from flacheck.capabilities.gate.requested_package import RequestedPackage
from flacheck.capabilities.gate.result import Gate

# Subjects that a note names before it counts the rest.
_NAMED = 4


def with_baseline(
    evidence: Evidence, baseline: Baseline, wanted: RecordFilter, file: str, flacheck: str
) -> Evidence:
    """The evidence with the baseline's standings where the store has no whole answer, and with the
    failures that the baseline accepts."""
    stood = standings_of(baseline)
    chosen = _Chosen(wanted)
    mine = chosen.parts_of(stood)
    standings: list[Standing] = []
    baseline_standings = list(mine)
    for answered in evidence.standings:
        there = [each for each in mine if _is_same(each, answered)]
        # A failure that the store knows counts, whatever the rest comes to.
        if there and answered.is_partial and not answered.failing:
            continue
        standings.append(answered)
        baseline_standings = [each for each in baseline_standings if each not in there]
    said = [*_about(stood, mine, wanted, file), *chosen.notes(mine, file)]
    said += notes(baseline, standings, file, flacheck)
    return replace(
        evidence,
        standings=[*standings, *baseline_standings],
        baseline_standings=baseline_standings,
        accepts=lambda cell: _accepts(baseline, cell),
        baseline=BaselineUse(file, len(baseline_standings), tuple(dict.fromkeys(said))),
    )


def accepted_releases(result: Gate) -> list[str]:
    """The releases that the pins allow, whose failures a baseline written now accepts."""
    tritons = {triton for admission in result.admissions for triton in admission.triton}
    return sorted((triton for triton in tritons if triton[0].isdigit()), key=by_version)


def _accepts(baseline: Baseline, cell: ObservedCell) -> bool:
    """Whether a cell fails as it did when the pins allowed its release already."""
    return split(cell.toolchain)[1] in baseline.accepted_releases and contains_failure(
        baseline, cell
    )


def _is_same(one: Standing, other: Standing) -> bool:
    return one.place == other.place and identity(one.question) == identity(other.question)


def _about(
    stood: Sequence[Standing], mine: Sequence[Standing], wanted: RecordFilter, file: str
) -> Iterator[str]:
    """What the baseline is about, where that is nothing that is asked."""
    if mine:
        return
    names = list(dict.fromkeys(each.question.name for each in stood))
    yield f"{file} is not about {wanted.about}; it is about {'; '.join(some(names, _NAMED))}"


class _Chosen:
    """Which of a baseline's questions are asked about."""

    def __init__(self, wanted: RecordFilter) -> None:
        self._wanted = wanted
        self._package: RequestedPackage | None = None
        if wanted.package:
            self._package = RequestedPackage.of(wanted.package)

    def parts_of(self, stood: Sequence[Standing]) -> list[Standing]:
        """What of a baseline is asked about; a narrower question only where there is no whole
        one."""
        whole = {each.place for each in stood if self._is_chosen_whole(each)}
        parts = []
        for each in stood:
            part = self.part_of(each)
            is_narrower = each.place in whole and not self._is_chosen_whole(each)
            if part is not None and not is_narrower:
                parts.append(part)
        return parts

    def _is_chosen_whole(self, standing: Standing) -> bool:
        """Whether a question was chosen by its name, and leaves out nothing that is asked."""
        is_chosen = bool(self._wanted.package or self._wanted.run_name)
        return (
            is_chosen
            and self._is_about(standing.question.about)
            and self._wanted.is_whole(standing.question)
        )

    def part_of(self, standing: Standing) -> Standing | None:
        """What of a standing is about the kernels and targets that are asked; None for nothing."""
        wanted, question = self._wanted, standing.question
        if not self._is_about(question.about):
            return None
        if wanted.targets and standing.target not in wanted.targets:
            return None
        is_whole = wanted.is_whole(question)
        # Which cells came through an operator, no count knows.
        if wanted.ops and not is_whole:
            return None
        is_chosen = wanted.package or wanted.run_name
        if is_chosen and not is_whole:
            name, _ = name_and_version(question.about)
            note = f"only {question.narrowing} of {name} is in the baseline"
            standing = replace(standing, requested_count=None, note=note)
        if not wanted.kernels:
            return standing
        cells = tuple(cell for cell in standing.cells if wanted.names(cell.kernel))
        untested = tuple(cell for cell in standing.untested_cells if wanted.names(cell.kernel))
        if not cells and not untested:
            return None
        kernels = frozenset(filter(wanted.names, standing.kernels))
        return replace(_cut_down(standing, cells, untested), kernels=kernels)

    def notes(self, mine: Sequence[Standing], file: str) -> Iterator[str]:
        """Where a checkout has changed since."""
        if self._package is None:
            return
        abouts = dict.fromkeys(each.question.about for each in mine)
        changed = sorted(about for about in abouts if self._package.has_changed_since(about))
        if changed:
            yield (
                f"{file} is of {', '.join(some(changed, _NAMED))}, and files in "
                f"{self._wanted.package} have changed since: scan again where kernels have"
            )

    def _is_about(self, about: str) -> bool:
        if self._package is not None:
            return self._package.is_about(about)
        return self._wanted.run_name in (None, about)


def _cut_down(
    standing: Standing, cells: tuple[ObservedCell, ...], untested: tuple[ObservedCell, ...]
) -> Standing:
    """A standing of some of its cells; a question that is partial stays so."""
    answered = len(cells) + len(untested)
    asked: int | None = answered
    if standing.is_partial:
        asked = None
    return replace(
        standing,
        requested_count=asked,
        answered_count=answered,
        cells=cells,
        untested_cells=untested,
    )
