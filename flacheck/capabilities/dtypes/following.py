"""Asks the guest: which dtypes reach the kernels of some targets, in some modes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from flacheck.capabilities.dtypes import judging, missing_modules, scripts
from flacheck.capabilities.dtypes.finding import DtypeFinding
from flacheck.capabilities.dtypes.observation import Mode, Observation
from flacheck.capabilities.dtypes.starting import DtypesAnswer as DtypesAnswer
from flacheck.capabilities.dtypes.starting import DtypesQuestion as DtypesQuestion
from flacheck.capabilities.dtypes.starting import describe_question as describe_question
from flacheck.capabilities.dtypes.starting import observe
from flacheck.errors import IncompleteError, UsageError


def follow(question: DtypesQuestion, folder: Path, overlay: Path | None = None) -> DtypesAnswer:
    """Start the guest in a folder of ours, and once more for what cannot be followed without a
    module that is not here, with stand-ins for it. `overlay` holds mended copies of the modules
    that are followed, which come before the others.

    Raises UsageError for a target that cannot be followed, IncompleteError when nothing came out.
    """
    if question.script:
        return scripts.follow(question, folder, overlay)
    answer = observe(question, folder, overlay)
    seen = answer.observation
    if seen.error is not None and seen.kind == "import":
        needed = missing_modules.match_missing(seen.error, seen.missing)
        if needed:
            again = observe(question, folder, overlay, needed)
            if again.observation.error is None:
                observation = missing_modules.mark_stand_ins(again.observation, needed)
                return replace(again, observation=observation)
    _check(question, seen)
    needs = missing_modules.group_by_missing(seen)
    for needed, names in needs.items():
        narrowed = replace(question, targets=_as_asked(question, names))
        again = observe(narrowed, folder, overlay, needed)
        if again.observation.error is None:
            seen = missing_modules.merge(seen, again.observation, needed)
            answer = replace(answer, launches=(*answer.launches, *again.launches))
    return replace(answer, observation=seen)


def _as_asked(question: DtypesQuestion, names: Sequence[str]) -> tuple[str, ...]:
    """Subjects as targets: a file's subject by the target that named it."""
    asked = {_subject(target): target for target in question.targets}
    return tuple(asked.get(name, name) for name in names)


def _subject(target: str) -> str:
    where, _, name = target.rpartition(":")
    if where.endswith(".py"):
        where = Path(where).stem
    return f"{where}:{name}"


def _check(question: DtypesQuestion, seen: Observation) -> None:
    if seen.error is not None and seen.kind == "target":
        raise UsageError(seen.error)
    if seen.error is not None:
        raise IncompleteError(f"{describe_question(question)}: cannot be imported: {seen.error}")


def findings(answer: DtypesAnswer, asked: Sequence[Mode]) -> list[DtypeFinding]:
    """Every finding of every subject, in the order in which they were followed."""
    subjects = answer.observation.subjects
    wanted = judging.find_wide_by_design(subjects, asked)
    found = []
    for subject in subjects:
        for mode in asked:
            found += judging.judge(subject, mode, wanted, answer.display_path)
    return found
