"""An argument that changes what is compiled, but is in no key: what was tuned for one binary is
used for another.

A fault is what launches show: two share a key and differ in a constexpr, or in what the compiler
looks at in an argument. Or what the code shows: a constexpr decides a branch, a loop's bounds or a
tile's side, and the host code passes it freely, for it rests on more than keys. `unkeyed` lists the
other constexprs that no key covers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from flacheck.autotune.examined import Args, KeyFault
from flacheck.autotune.faults.base import Case, is_tensor, plain, specialisation
from flacheck.autotune.faults.storm import is_length


def find(case: Case) -> Iterator[KeyFault]:
    for name in _candidates(case):
        pair = _differing(case, name)
        if pair is not None:
            yield _fault(case, name, *pair)
        elif _is_free(case, name):
            yield _free(case, name)


def unkeyed(case: Case) -> list[str]:
    """Constexprs of the caller's that are in no key."""
    declared = case.tuned.declared
    constexprs = (
        set(declared.constexprs)
        if declared
        else {n for call in case.calls for n in call if _fixed(call, n)}
    )
    supplied = declared.heuristics if declared else ()
    faults = {fault.key for fault in find(case)}
    return [
        name
        for name in _candidates(case)
        if name in constexprs and name not in {*supplied, *faults}
    ]


def _candidates(case: Case) -> list[str]:
    """What a key can hold: no tensors, whose dtypes are in it already, and which a heuristic tells
    apart from None.
    """
    declared = case.tuned.declared
    outside = {*case.tuned.keys, *case.tuned_names, *(declared.unspecialized if declared else ())}
    tensors = {name for call in case.calls for name, spec in call.items() if is_tensor(spec)}
    return [name for name in case.arguments if name not in outside | tensors]


def _is_free(case: Case, name: str) -> bool:
    """Whether a constexpr decides what is compiled, and the host code passes it whatever the keys
    are.
    """
    tuned = case.tuned
    constexpr = tuned.declared is not None and name in tuned.declared.constexprs
    passing = [host for host in tuned.hosts if name in host.passed]
    if not constexpr or name not in tuned.code.steering or not passing:
        return False
    told = tuple(each for each in tuned.keys if each in case.arguments)
    return any(not host.settled(name, told) for host in passing)


def _free(case: Case, name: str) -> KeyFault:
    why = "decides a branch, a loop or a tile, the host code passes it freely, and it is in no key"
    if is_length(case, name):
        longer = f"{why}: each of its values is compiled anew, and as a key would be tuned anew"
        return _as_it_comes(case, name, case.calls[0], longer)
    return KeyFault(
        name, "missing", name, None, f"{why}: what was tuned for one of its values is used for all"
    )


def _fixed(call: Args, name: str) -> bool:
    return isinstance(call[name], dict) and "constexpr" in call[name]


def _differing(case: Case, name: str) -> tuple[Args, Args] | None:
    """Two calls with one key for which the compiler sees different things in this argument."""
    for calls in case.by_key.values():
        seen = {
            found: call
            for call in reversed(calls)
            if (found := specialisation(call.get(name))) is not None
        }
        if len(seen) > 1:
            other, first = list(seen.values())[-2:]
            return first, other
    return None


def _fault(case: Case, name: str, first: Args, other: Args) -> KeyFault:
    one, two = (plain(call[name]) for call in (first, other))
    why = f"changes what is compiled ({one}, then {two}) and is in no key: one is run with what was tuned for the other"
    if is_length(case, name) or _is_size(first, name):
        return _as_it_comes(
            case, name, first, f"{why}; as a key it would tune anew for every value"
        )
    return KeyFault(name, "missing", name, None, why)


def _is_size(call: Args, name: str) -> bool:
    """An integer that is no constexpr has any value: a count of rows. Strides have few."""
    return not _fixed(call, name) and "stride" not in name.lower()


def _as_it_comes(case: Case, name: str, call: Args, why: str) -> KeyFault:
    """The remedy for a length or a size: have the compiler take it as it comes."""
    declared, fault = case.tuned.declared, KeyFault(name, "missing", name, None, why)
    file = declared.file if declared else None
    if _fixed(call, name):
        lines = {each: line for each, _, line in declared.parameters} if declared and file else {}
        return replace(
            fault, file=file, line=lines.get(name), end_line=lines.get(name), fix=f"    {name},"
        )
    listed = ", ".join(repr(each) for each in [*(declared.unspecialized if declared else ()), name])
    line = declared.jit_line if declared and file else None
    return replace(
        fault, file=file, line=line, end_line=line, fix=f"@triton.jit(do_not_specialize=[{listed}])"
    )
