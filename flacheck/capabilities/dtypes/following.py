"""Dtypes that reach the kernels of some targets, in some modes."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from flacheck.capabilities.dtypes import judging, missing_modules
from flacheck.capabilities.dtypes.finding import DtypeFinding
from flacheck.capabilities.dtypes.observation import Mode, Observation, ObservedError
from flacheck.capabilities.dtypes.starting import DtypesAnswer as DtypesAnswer
from flacheck.capabilities.dtypes.starting import DtypesQuestion as DtypesQuestion
from flacheck.capabilities.dtypes.starting import describe_question as describe_question
from flacheck.capabilities.dtypes.starting import observe
from flacheck.errors import IncompleteError, UsageError


def follow(question: DtypesQuestion, folder: Path) -> DtypesAnswer:
    """Run the guest below `folder`, and again with stand-ins for modules that are missing.

    Raises UsageError for a target that cannot be followed, IncompleteError for a run without a
    report.
    """
    answer = observe(question, folder)
    first = answer.observation
    if first.error is not None and first.kind == "import":
        modules = missing_modules.match_missing(first.error, first.missing)
        if modules:
            second = observe(question, folder, modules)
            if second.observation.error is None:
                observation = missing_modules.mark_stand_ins(second.observation, modules)
                return replace(second, observation=observation)
    _check(question, first)
    observation = first
    for modules, names in missing_modules.group_by_missing(first).items():
        subset = replace(question, targets=_as_targets(question, names))
        second = observe(subset, folder, modules)
        if second.observation.error is None:
            observation = missing_modules.merge(observation, second.observation, modules)
            answer = replace(answer, launches=(*answer.launches, *second.launches))
    return replace(answer, observation=observation)


def _as_targets(question: DtypesQuestion, names: Sequence[str]) -> tuple[str, ...]:
    """Return the targets of some subjects: the question's own target if it names a subject."""
    targets = {_subject(target): target for target in question.targets}
    return tuple(targets.get(name, name) for name in names)


def _subject(target: str) -> str:
    where, _, name = target.rpartition(":")
    if where.endswith(".py"):
        where = Path(where).stem
    return f"{where}:{name}"


def _check(question: DtypesQuestion, observation: Observation) -> None:
    if observation.error is not None and observation.kind == "target":
        raise UsageError(observation.error)
    if observation.error is not None:
        subject = describe_question(question)
        raise IncompleteError(f"{subject}: cannot be imported: {observation.error}")


# The subject, type, text and line of an error.
ErrorKey = tuple[str, str, str, int]


def find_errors(
    answer: DtypesAnswer, modes: Sequence[Mode] = ()
) -> Mapping[ErrorKey, ObservedError]:
    """Return the errors that end runs in some modes, by default in all, or calls of a subject."""
    errors = {}
    for subject in answer.observation.subjects:
        own_errors = [run.error for run in subject.runs if not modes or run.mode in modes]
        for error in own_errors or subject.errors:
            if error is not None:
                line = error.place.line if error.place else 0
                errors[subject.name, error.type, error.text, line] = error
    return errors


def find_new_errors(
    answer: DtypesAnswer,
    known_errors: Container[ErrorKey],
    findings: Iterable[DtypeFinding],
    modes: Sequence[Mode] = (),
) -> list[ObservedError]:
    """Return the errors of a run that neither an earlier run nor a finding has."""
    texts = {each.error_at_end.text for each in findings if each.error_at_end is not None}
    errors = []
    for key, error in find_errors(answer, modes).items():
        if key not in known_errors and error.brief not in texts:
            errors.append(error)
    return errors


def findings(answer: DtypesAnswer, modes: Sequence[Mode]) -> list[DtypeFinding]:
    """Return the findings of every subject, in the order in which the subjects were followed."""
    subjects = answer.observation.subjects
    all_findings = []
    for subject in subjects:
        by_design = judging.find_wide_by_design(subject, modes)
        for mode in modes:
            all_findings += judging.judge(subject, mode, by_design, answer.display_path)
    return all_findings
