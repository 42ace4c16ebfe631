"""A gate's evidence, completed by a baseline where the store is incomplete."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from flacheck.capabilities.gate.evidence import BaselineUse, Evidence, RecordFilter
from flacheck.capabilities.gate.requested_package import RequestedPackage
from flacheck.capabilities.gate.result import Gate
from flacheck.evidence.analysis.observation import ObservedCell
from flacheck.evidence.analysis.order import by_version, some, split
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.baseline.comparing import contains_failure, notes
from flacheck.evidence.baseline.form import Baseline
from flacheck.evidence.baseline.standings import identity, name_and_version, standings_of

# The number of subjects that a note names before it counts the rest.
_SHOWN_SUBJECTS = 4


def with_baseline(
    evidence: Evidence, baseline: Baseline, record_filter: RecordFilter, file: str, flacheck: str
) -> Evidence:
    """Return the evidence with the baseline's standings and its accepted failures.

    A standing of the baseline is used where the store lacks records of some cells.

    Args:
        evidence: The evidence of the store.
        baseline: The baseline.
        record_filter: The questions and cells that count.
        file: The baseline's file as notes name it.
        flacheck: The version of this flacheck.
    """
    all_standings = standings_of(baseline)
    selection = _Selection(record_filter)
    own_standings = selection.parts_of(all_standings)
    standings: list[Standing] = []
    baseline_standings = list(own_standings)
    for answer in evidence.standings:
        same = [each for each in own_standings if _is_same(each, answer)]
        # A failure in the store counts, whatever the missing cells would show.
        if same and answer.is_partial and not answer.failing:
            continue
        standings.append(answer)
        baseline_standings = [each for each in baseline_standings if each not in same]
    lines: list[str] = []
    if not own_standings:
        lines.append(_other_subject(all_standings, record_filter, file))
    lines += selection.notes(own_standings, file)
    lines += notes(baseline, standings, file, flacheck)
    return replace(
        evidence,
        standings=[*standings, *baseline_standings],
        baseline_standings=baseline_standings,
        accepts=lambda cell: _accepts(baseline, cell),
        baseline=BaselineUse(file, len(baseline_standings), tuple(dict.fromkeys(lines))),
    )


def accepted_releases(result: Gate) -> list[str]:
    """Return the releases that the pins allow; a new baseline accepts their failures."""
    releases = set()
    for admission in result.admissions:
        for triton in admission.triton:
            if triton[0].isdigit():
                releases.add(triton)
    return sorted(releases, key=by_version)


def _accepts(baseline: Baseline, cell: ObservedCell) -> bool:
    """Return True for a listed failure under a release that the baseline accepts."""
    is_accepted = split(cell.toolchain)[1] in baseline.accepted_releases
    return is_accepted and contains_failure(baseline, cell)


def _is_same(one: Standing, other: Standing) -> bool:
    return one.place == other.place and identity(one.question) == identity(other.question)


def _other_subject(standings: Sequence[Standing], record_filter: RecordFilter, file: str) -> str:
    """Return a note for a baseline that has nothing about the gate's subject."""
    names = list(dict.fromkeys(each.question.name for each in standings))
    subjects = "; ".join(some(names, _SHOWN_SUBJECTS))
    return f"{file} is not about {record_filter.about}; it is about {subjects}"


class _Selection:
    """The part of a baseline's questions that a filter selects."""

    def __init__(self, record_filter: RecordFilter) -> None:
        self._filter = record_filter
        self._package: RequestedPackage | None = None
        if record_filter.package:
            self._package = RequestedPackage.of(record_filter.package)

    def parts_of(self, standings: Sequence[Standing]) -> list[Standing]:
        """Return the selected parts; a narrower question counts only without a whole one."""
        whole_places = {each.place for each in standings if self._is_whole_subject(each)}
        parts = []
        for each in standings:
            part = self.part_of(each)
            is_narrower = each.place in whole_places and not self._is_whole_subject(each)
            if part is not None and not is_narrower:
                parts.append(part)
        return parts

    def _is_whole_subject(self, standing: Standing) -> bool:
        """Return True if a question is about the named subject and leaves out nothing selected."""
        has_subject = bool(self._filter.package or self._filter.run_name)
        return (
            has_subject
            and self._is_about(standing.question.about)
            and self._filter.is_whole(standing.question)
        )

    def part_of(self, standing: Standing) -> Standing | None:
        """Return the selected part of a standing; None if it is empty."""
        record_filter, question = self._filter, standing.question
        if not self._is_about(question.about):
            return None
        if record_filter.targets and standing.target not in record_filter.targets:
            return None
        is_whole = record_filter.is_whole(question)
        # A baseline does not record the operator of a cell.
        if record_filter.ops and not is_whole:
            return None
        has_subject = record_filter.package or record_filter.run_name
        if has_subject and not is_whole:
            name, _ = name_and_version(question.about)
            note = f"only {question.narrowing} of {name} is in the baseline"
            standing = replace(standing, requested_count=None, note=note)
        return limit_to(standing, record_filter)

    def notes(self, own_standings: Sequence[Standing], file: str) -> Iterator[str]:
        """Yield a note if the checkout has changed since the baseline was written."""
        if self._package is None:
            return
        subjects = dict.fromkeys(each.question.about for each in own_standings)
        stale = sorted(about for about in subjects if self._package.has_changed_since(about))
        if stale:
            yield (
                f"{file} is of {', '.join(some(stale, _SHOWN_SUBJECTS))}, and files in "
                f"{self._filter.package} have changed since: scan again where kernels have"
            )

    def _is_about(self, about: str) -> bool:
        if self._package is not None:
            return self._package.is_about(about)
        return self._filter.run_name in (None, about)


def limit_to(standing: Standing, record_filter: RecordFilter) -> Standing | None:
    """Return a standing with the selected kernels; None if nothing is left."""
    if not record_filter.kernels:
        return standing
    return standing.of_cells(lambda cell: record_filter.names(cell.kernel))
