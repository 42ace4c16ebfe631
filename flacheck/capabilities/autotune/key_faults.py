"""Faults of an autotuner's keys, and the lines to write instead.

A fault is a function that yields a finding for each key, or argument, that has it. Where another
list of keys is the remedy it leaves `fix` empty: `faults` writes the list that mends them all.
"""

import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from packaging.version import Version

from flacheck.capabilities.autotune.keys import BY_NAME_FROM, KeyEvidence, plain
from flacheck.capabilities.autotune.missing_keys import missing
from flacheck.capabilities.autotune.results import KeyFault
from flacheck.model import canonical

# The first release that refuses to make an autotuner with a key that is no argument.
_REFUSED_FROM = Version("3.9.0")
# `USE_GG` for `USE_G` is a slip; less alike are two names that have nothing to do with each other.
_SPELT_ALIKE = 0.8
# Head counts, head sizes and flags of one program take fewer values.
_MANY_VALUES = 8
# With fewer keys than this, one of them staying the same may be chance...
_ENOUGH_KEYS = 4
# ...and with fewer values, so may be that one follows from another: two flags often do.
_ENOUGH_VALUES = 3
_BY_POSITION = {
    "past-end": "is looked up past the end of the arguments: the first launch raises IndexError",
    "shifted": "is silently read from another argument, because an omitted one stands before it",
}
_NO_ARGUMENT = "is no argument of the kernel"


def no_argument(evidence: KeyEvidence) -> Iterator[KeyFault]:
    """A key that is no argument of the kernel, with the argument that may have been meant."""
    keys = evidence.tuned_launch.keys
    if evidence.tuned_launch.declaration is None:
        return
    why = f"{_NO_ARGUMENT}: the module raises ValueError when it is imported"
    if BY_NAME_FROM <= evidence.version < _REFUSED_FROM:
        why = (
            f"{_NO_ARGUMENT}: this release drops it silently, "
            f"{_REFUSED_FROM} refuses to import the module"
        )
    taken = {*keys, *evidence.tuned_names}
    free = [name for name in evidence.arguments if name not in taken]
    for key in keys:
        if key not in evidence.arguments:
            alike = difflib.get_close_matches(key, free, 1, _SPELT_ALIKE)
            yield KeyFault(key, "no-argument", next(iter(alike), None), None, why)


def by_position(evidence: KeyEvidence) -> Iterator[KeyFault]:
    """A key that the release reads past the end of the arguments, or from another argument, as its
    own `Autotuner.run` showed. The remedy is in the signature: what the caller omits has to stand
    behind every key."""
    omitted = {*evidence.tuned_launch.launch.omitted, *evidence.tuned_names} - set(
        evidence.heuristics
    )
    last = [name for name in evidence.arguments if name in omitted]
    declaration = evidence.in_file
    for looked_up in evidence.audit:
        kind, want = looked_up["fault"], looked_up["want"]
        if kind not in _BY_POSITION:
            continue
        fix = f"move {', '.join(last)} behind all keys in the kernel's signature"
        fault = KeyFault(want, kind, want, looked_up["got"], _BY_POSITION[kind], fix=fix)
        if declaration:
            fix, lines = declaration.with_parameters_last(last), declaration.signature
            fault = replace(
                fault, file=declaration.file, line=lines.line, end_line=lines.end_line, fix=fix
            )
        yield fault


def storm(evidence: KeyEvidence) -> Iterator[KeyFault]:
    """A key that takes many values, such as a sequence length: each one tunes anew.

    A key is one when launches show many values, or when it is an integer by the name of a length.
    One that the compiler is told not to look at is none by that alone: a length is often put into
    buckets and handed over for the key only.
    """
    for key in evidence.tuned_launch.keys:
        if key not in evidence.arguments:
            continue
        seen = [plain(call[key]) for call in evidence.calls if key in call]
        values = {value for value in seen if isinstance(value, int)}
        if len(values) >= _MANY_VALUES:
            why = f"took {len(values)} values in {len(evidence.calls)} launches"
        elif evidence.is_length(key):
            why = "is a sequence length"
        else:
            continue
        yield KeyFault(key, "storm", None, key, f"{why}: each value tunes all configurations anew")


def constant(evidence: KeyEvidence) -> Iterator[KeyFault]:
    """A key that tells no two launches apart: it never changes, or an earlier key already says it.

    Judged by what a program launched. Of launches whose sizes a driver chose, and of few, nothing
    is concluded.
    """
    if evidence.tuned_launch.is_captured or len(evidence.by_key) < _ENOUGH_KEYS:
        return
    columns: dict[str, list[str]] = {}
    for key in dict.fromkeys(evidence.tuned_launch.keys):
        if not all(key in call for call in evidence.calls):
            continue
        column = [canonical(plain(call[key])) for call in evidence.calls]
        seen = f"in all {len(column)} launches seen"
        if len(set(column)) == 1:
            yield KeyFault(key, "constant", key, column[0], f"is {column[0]} {seen}")
        elif len(set(column)) >= _ENOUGH_VALUES:
            for other, values in columns.items():
                if len(set(zip(values, column))) == len(set(values)):
                    yield KeyFault(key, "constant", key, other, f"follows from {other} {seen}")
                    break
        columns[key] = column


# Those that end a run come first.
FAULTS: tuple[Callable[[KeyEvidence], Iterator[KeyFault]], ...] = (
    no_argument,
    by_position,
    storm,
    missing,
    constant,
)


def faults(evidence: KeyEvidence) -> list[KeyFault]:
    """All faults of a kernel's keys under a release, each with the lines to write instead."""
    findings = [fault for find in FAULTS for fault in find(evidence)]
    keys = correct_keys(evidence.tuned_launch.keys, findings)
    return [_with_fix(evidence, fault, keys) for fault in findings]


def correct_keys(keys: Sequence[str], findings: Sequence[KeyFault]) -> list[str]:
    """The list of keys that is free of all faults that another list mends."""
    instead: dict[str, str | None] = {}
    added = []
    for fault in findings:
        if fault.fault == "no-argument":
            instead[fault.key] = fault.want
        elif fault.fault in ("storm", "constant"):
            instead[fault.key] = None
        elif fault.fault == "missing" and not fault.fix:
            added.append(fault.key)
    kept = [instead.get(key, key) for key in keys]
    return list(dict.fromkeys(key for key in [*kept, *added] if key))


def _with_fix(evidence: KeyEvidence, fault: KeyFault, keys: Sequence[str]) -> KeyFault:
    """The fault with the whole list of keys, unless its remedy is another."""
    declaration = evidence.in_file
    if fault.fix:
        return fault
    if declaration is None:
        return replace(fault, fix=f"key={list(keys)!r},")
    line = end = declaration.line
    if declaration.key_list:
        line, end = declaration.key_list.line, declaration.key_list.end_line
    fix = declaration.with_keys(keys)
    return replace(fault, file=declaration.file, line=line, end_line=end, fix=fix)
