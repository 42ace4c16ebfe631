"""Subjects that need a compiled module which is not installed, and runs with a stand-in for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import structs

from flacheck.capabilities.dtypes.observation import Observation, ObservedError, ObservedSubject

# Python's message for a call of a name that is None because its import failed.
_NONE_CALLED = "'NoneType' object is not callable"


def match_missing(text: str, missing: Iterable[str]) -> tuple[str, ...]:
    """Return the missing modules that an error names, in any spelling: `pip install flash-attn`."""
    return tuple(sorted(name for name in missing if _is_named(name, text)))


def _is_named(name: str, text: str) -> bool:
    """Return whether a module's name is a word of the text, with any sign between its parts."""
    parts = map(re.escape, name.split("_"))
    pattern = r"(?<![a-z0-9])" + r"[\W_]?".join(parts) + r"(?![a-z0-9])"
    return re.search(pattern, text, re.IGNORECASE) is not None


def group_by_missing(observation: Observation) -> dict[tuple[str, ...], list[str]]:
    """Return the names of the subjects that failed for missing modules, by these modules."""
    by_modules: dict[tuple[str, ...], list[str]] = {}
    for subject in observation.subjects:
        modules = _modules_needed_by(subject, observation)
        if modules:
            by_modules.setdefault(modules, []).append(subject.name)
    return by_modules


def _modules_needed_by(subject: ObservedSubject, observation: Observation) -> tuple[str, ...]:
    """Return the missing modules that the first such error of any call of a subject leads to."""
    errors = list(subject.errors)
    for run in subject.runs:
        if run.error is not None:
            errors.append(run.error)
    for error in errors:
        modules = match_missing(error.text, observation.missing)
        if modules:
            return modules
        if _NONE_CALLED in error.text:
            return _imports_behind(error, subject, observation)
    return ()


def _imports_behind(
    error: ObservedError, subject: ObservedSubject, observation: Observation
) -> tuple[str, ...]:
    """Return the missing imports of the innermost module of a traceback, else the subject's own."""
    frames = re.findall(r'File "([^"]+)"', error.trace)
    innermost = frames[-1].removesuffix(".py").replace("/", ".") if frames else ""
    own = subject.name.partition(":")[0]
    of_innermost, of_subject = [], []
    for module, importers in observation.missing.items():
        if any(innermost.endswith(importer) for importer in importers):
            of_innermost.append(module)
        if own in importers:
            of_subject.append(module)
    return tuple(sorted(of_innermost or of_subject))


def mark_stand_ins(observation: Observation, stand_ins: Sequence[str]) -> Observation:
    """Return the observation with all subjects marked as followed with these stand-ins."""
    subjects = []
    for each in observation.subjects:
        subjects.append(structs.replace(each, stand_ins=tuple(stand_ins)))
    return structs.replace(observation, subjects=tuple(subjects))


def merge(first: Observation, second: Observation, stand_ins: Sequence[str]) -> Observation:
    """Return the first observation with the subjects that only the run with stand-ins followed."""
    marked_subjects = mark_stand_ins(second, stand_ins).subjects
    replacements = {each.name: each for each in marked_subjects if each.plan}
    subjects = tuple(replacements.get(each.name, each) for each in first.subjects)
    return structs.replace(first, subjects=subjects)
