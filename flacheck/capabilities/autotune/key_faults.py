"""Faults of an autotuner's keys, with the lines that fix them.

Each fault is a function that yields a finding for each key or argument with that fault. If another
list of keys is the fix, `fix` stays empty, and `faults` fills in one list that fixes all of them.
"""

import difflib
from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace
from packaging.version import Version

from flacheck.capabilities.autotune.keys import BY_NAME_FROM, KeyEvidence, plain
from flacheck.capabilities.autotune.missing_keys import missing
from flacheck.capabilities.autotune.results import KeyFault
from flacheck.model import canonical

# The first release that rejects an autotuner with a key that is not an argument.
_REFUSED_FROM = Version("3.9.0")
# `USE_GG` for `USE_G` is a typing error; names with a lower similarity are unrelated.
_SIMILARITY = 0.8
# Head counts, head sizes and flags of one program have fewer values.
_MANY_VALUES = 8
# With fewer distinct keys, a constant value may be chance...
_ENOUGH_KEYS = 4
# ...and with fewer values, so may a dependence between two keys, such as two flags.
_ENOUGH_VALUES = 3
_BY_POSITION = {
    "past-end": "is looked up past the end of the arguments: the first launch raises IndexError",
    "shifted": "is silently read from another argument, because an omitted one stands before it",
}
_NO_ARGUMENT = "is not an argument of the kernel"


def no_argument(evidence: KeyEvidence) -> Iterator[KeyFault]:
    """Yield the keys that are not arguments of the kernel, with the most similar argument."""
    keys = evidence.tuned_launch.keys
    if evidence.tuned_launch.declaration is None:
        return
    why = f"{_NO_ARGUMENT}: the module raises ValueError when it is imported"
    if BY_NAME_FROM <= evidence.version < _REFUSED_FROM:
        why = (
            f"{_NO_ARGUMENT}: this release drops it silently, "
            f"{_REFUSED_FROM} refuses to import the module"
        )
    excluded_names = {*keys, *evidence.tuned_names}
    free = [name for name in evidence.arguments if name not in excluded_names]
    for key in keys:
        if key not in evidence.arguments:
            suggestion = None
            for name in difflib.get_close_matches(key, free, 1, _SIMILARITY):
                suggestion = name
            yield KeyFault(key, "no-argument", suggestion, None, why)


def by_position(evidence: KeyEvidence) -> Iterator[KeyFault]:
    """Yield the keys that the release reads past the end of the arguments, or from another one.

    The evidence is the release's own `Autotuner.run`. The fix is in the signature: the arguments
    that the caller omits must come after every key.
    """
    not_passed = {*evidence.tuned_launch.launch.omitted, *evidence.tuned_names}
    not_passed -= set(evidence.heuristics)
    last = [name for name in evidence.arguments if name in not_passed]
    declaration = evidence.in_file
    for lookup in evidence.audit:
        kind, want = lookup["fault"], lookup["want"]
        if kind not in _BY_POSITION:
            continue
        fix = f"move {', '.join(last)} behind all keys in the kernel's signature"
        fault = KeyFault(want, kind, want, lookup["got"], _BY_POSITION[kind], fix=fix)
        if declaration:
            fix, lines = declaration.with_parameters_last(last), declaration.signature
            fault = replace(
                fault, file=declaration.file, line=lines.line, end_line=lines.end_line, fix=fix
            )
        yield fault


def storm(evidence: KeyEvidence) -> Iterator[KeyFault]:
    """Yield the keys that take many values, such as a sequence length: each one tunes anew.

    Launches with many values show this, or an integer with the name of a length. A key on which the
    compiler does not specialise may be the bucket of a length, passed for the key only.
    """
    for key in evidence.tuned_launch.keys:
        if key not in evidence.arguments:
            continue
        values = set()
        for call in evidence.calls:
            value = plain(call.get(key))
            if isinstance(value, int):
                values.add(value)
        if len(values) >= _MANY_VALUES:
            why = f"took {len(values)} values in {len(evidence.calls)} launches"
        elif evidence.is_length(key):
            why = "is a sequence length"
        else:
            continue
        yield KeyFault(key, "storm", None, key, f"{why}: each value tunes all configurations anew")


def constant(evidence: KeyEvidence) -> Iterator[KeyFault]:
    """Yield the keys that distinguish no two launches: constant, or implied by an earlier key.

    Only the launches of a program are evidence, not those with sizes that a driver chose, and not a
    small number of them.
    """
    if evidence.tuned_launch.is_captured or len(evidence.by_key) < _ENOUGH_KEYS:
        return
    columns: dict[str, list[str]] = {}
    for key in dict.fromkeys(evidence.tuned_launch.keys):
        if not all(key in call for call in evidence.calls):
            continue
        column = [canonical(plain(call[key])) for call in evidence.calls]
        where = f"in all {len(column)} launches seen"
        if len(set(column)) == 1:
            yield KeyFault(key, "constant", key, column[0], f"is {column[0]} {where}")
        elif len(set(column)) >= _ENOUGH_VALUES:
            for other, values in columns.items():
                if len(set(zip(values, column))) == len(set(values)):
                    yield KeyFault(key, "constant", key, other, f"follows from {other} {where}")
                    break
        columns[key] = column


# Faults that end a run come first.
FAULTS: tuple[Callable[[KeyEvidence], Iterator[KeyFault]], ...] = (
    no_argument,
    by_position,
    storm,
    missing,
    constant,
)


def faults(evidence: KeyEvidence) -> list[KeyFault]:
    """Return all faults of a kernel's keys under a release, each with its fix."""
    findings = [fault for find in FAULTS for fault in find(evidence)]
    keys = correct_keys(evidence.tuned_launch.keys, findings)
    return [_with_fix(evidence, fault, keys) for fault in findings]


def correct_keys(keys: Sequence[str], findings: Sequence[KeyFault]) -> list[str]:
    """Return the list of keys without the faults that another list of keys fixes."""
    instead: dict[str, str | None] = {}
    new_keys = []
    for fault in findings:
        if fault.fault == "no-argument":
            instead[fault.key] = fault.want
        elif fault.fault in ("storm", "constant"):
            instead[fault.key] = None
        elif fault.fault == "missing" and not fault.fix:
            new_keys.append(fault.key)
    all_keys = [*(instead.get(key, key) for key in keys), *new_keys]
    return list(dict.fromkeys(filter(None, all_keys)))


def _with_fix(evidence: KeyEvidence, fault: KeyFault, keys: Sequence[str]) -> KeyFault:
    """Return the fault with the whole list of keys as its fix, unless it has another fix."""
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
