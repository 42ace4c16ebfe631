"""Which subjects cannot be followed without a compiled module that is not here, and what was seen
of them with a stand-in for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import structs

from flacheck.capabilities.dtypes.observation import Observation, ObservedError, ObservedSubject

# What Python says of a name that is None because its import failed.
_NONE_CALLED = "'NoneType' object is not callable"


def match_missing(text: str, missing: Iterable[str]) -> tuple[str, ...]:
    """The missing modules that an error names, however it spells them: `pip install flash-attn`."""
    return tuple(sorted(name for name in missing if _is_named(name, text)))


def _is_named(name: str, text: str) -> bool:
    """Whether it stands there as a word, with any sign or none between its parts."""
    parts = map(re.escape, name.split("_"))
    pattern = r"(?<![a-z0-9])" + r"[\W_]?".join(parts) + r"(?![a-z0-9])"
    return re.search(pattern, text, re.IGNORECASE) is not None


def group_by_missing(seen: Observation) -> dict[tuple[str, ...], list[str]]:
    """The subjects that an error for want of missing modules ended, by these modules."""
    found: dict[tuple[str, ...], list[str]] = {}
    for subject in seen.subjects:
        needed = _needed(subject, seen)
        if needed:
            found.setdefault(needed, []).append(subject.name)
    return found


def _needed(subject: ObservedSubject, seen: Observation) -> tuple[str, ...]:
    """Any of the calls that were tried may have come to where a module is missing."""
    errors = [*subject.errors, *(run.error for run in subject.runs if run.error is not None)]
    for error in errors:
        named = match_missing(error.text, seen.missing)
        if named:
            return named
        if _NONE_CALLED in error.text:
            return _asked_by(error, subject, seen)
    return ()


def _asked_by(error: ObservedError, subject: ObservedSubject, seen: Observation) -> tuple[str, ...]:
    """The missing modules that the innermost module of a traceback asked for, else the subject's
    own."""
    frames = re.findall(r'File "([^"]+)"', error.trace)
    inner = frames[-1].removesuffix(".py").replace("/", ".") if frames else ""
    own = subject.name.partition(":")[0]
    for is_asked in (lambda name: inner.endswith(name), lambda name: name == own):
        named = [name for name, by in seen.missing.items() if any(map(is_asked, by))]
        if named:
            return tuple(sorted(named))
    return ()


def mark_stand_ins(seen: Observation, stand_ins: Sequence[str]) -> Observation:
    """All subjects said to be followed with stand-ins."""
    subjects = tuple(structs.replace(each, stand_ins=tuple(stand_ins)) for each in seen.subjects)
    return structs.replace(seen, subjects=subjects)


def merge(seen: Observation, again: Observation, stand_ins: Sequence[str]) -> Observation:
    """What was seen, those subjects replaced that a second start with stand-ins could follow."""
    better = {each.name: each for each in mark_stand_ins(again, stand_ins).subjects if each.plan}
    subjects = tuple(better.get(each.name, each) for each in seen.subjects)
    return structs.replace(seen, subjects=subjects)
