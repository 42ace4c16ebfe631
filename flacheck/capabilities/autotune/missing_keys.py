"""An argument that changes what is compiled, but is in no key: what was tuned for one binary is
used for another.

A fault is what launches show: two share a key and differ in a constexpr, or in what the compiler
looks at in an argument. Or what the code shows: a constexpr decides a branch, a loop's bounds or a
tile's side, and the host code passes it freely, for it rests on more than keys. `find_unkeyed_constexprs` lists the
other constexprs that no key covers.
"""

from collections.abc import Iterator
from dataclasses import replace

from flacheck.capabilities.autotune.keys import (
    KeyEvidence,
    is_fixed,
    is_tensor,
    plain,
    specialisation,
)
from flacheck.capabilities.autotune.results import Args, KeyFault


def missing(evidence: KeyEvidence) -> Iterator[KeyFault]:
    for name in _candidates(evidence):
        pair = _mixed_up(evidence, name)
        if pair is not None:
            yield _seen(evidence, name, *pair)
        elif _is_free(evidence, name):
            yield _free(evidence, name)


def find_unkeyed_constexprs(evidence: KeyEvidence) -> list[str]:
    """Constexprs of the caller's that are in no key."""
    faults = {fault.key for fault in missing(evidence)}
    named = evidence.constexprs - faults - set(evidence.heuristics)
    return [name for name in _candidates(evidence) if name in named]


def _candidates(evidence: KeyEvidence) -> list[str]:
    """What a key can hold: no tensors, whose dtypes are in it already."""
    outside = {*evidence.tuned_launch.keys, *evidence.tuned_names, *evidence.unspecialized}
    for call in evidence.calls:
        outside.update(name for name, spec in call.items() if is_tensor(spec))
    return [name for name in evidence.arguments if name not in outside]


def _mixed_up(evidence: KeyEvidence, name: str) -> tuple[Args, Args] | None:
    """Two calls with one key for which the compiler sees different things in this argument."""
    for calls in evidence.by_key.values():
        first_with: dict[str, Args] = {}
        for call in reversed(calls):
            looked_at = specialisation(call.get(name))
            if looked_at is not None:
                first_with[looked_at] = call
        if len(first_with) > 1:
            *_, other, one = first_with.values()
            return one, other
    return None


def _seen(evidence: KeyEvidence, name: str, one: Args, other: Args) -> KeyFault:
    """What two calls show, the earlier one first."""
    values = f"{plain(one[name])}, then {plain(other[name])}"
    why = (
        f"changes what is compiled ({values}) and is in no key: "
        "one is run with what was tuned for the other"
    )
    # An integer that is no constexpr has any value: a count of rows. Strides have few.
    is_size = not is_fixed(one[name]) and "stride" not in name.lower()
    if evidence.is_length(name) or is_size:
        return _as_it_comes(
            evidence, name, one, f"{why}; as a key it would tune anew for every value"
        )
    return KeyFault(name, "missing", name, None, why)


def _is_free(evidence: KeyEvidence, name: str) -> bool:
    """Whether a constexpr decides what is compiled and host code passes it freely."""
    tuned = evidence.tuned_launch
    # Without the source nobody knows which parameters are constexprs, or what they decide.
    if (
        tuned.declaration is None
        or name not in evidence.constexprs
        or name not in tuned.code.steering
    ):
        return False
    keys = tuple(key for key in tuned.keys if key in evidence.arguments)
    return any(
        name in host.arguments and not host.is_determined_by(name, keys) for host in tuned.hosts
    )


def _free(evidence: KeyEvidence, name: str) -> KeyFault:
    why = "decides a branch, a loop or a tile, the host code passes it freely, and it is in no key"
    if evidence.is_length(name):
        longer = f"{why}: each of its values is compiled anew, and as a key would be tuned anew"
        return _as_it_comes(evidence, name, evidence.calls[0], longer)
    return KeyFault(
        name, "missing", name, None, f"{why}: what was tuned for one of its values is used for all"
    )


def _as_it_comes(evidence: KeyEvidence, name: str, call: Args, why: str) -> KeyFault:
    """The remedy for a length or a size: have the compiler take it as it comes."""
    if is_fixed(call[name]):
        fix = f"    {name},"
    else:
        listed = ", ".join(map(repr, [*evidence.unspecialized, name]))
        fix = f"@triton.jit(do_not_specialize=[{listed}])"
    fault = KeyFault(name, "missing", name, None, why, fix=fix)
    # A cut source has lines, but nobody can open them.
    declaration = evidence.in_file
    if declaration is None:
        return fault
    line = declaration.jit_line
    if is_fixed(call[name]):
        line = {parameter: number for parameter, _, number in declaration.parameters}[name]
    return replace(fault, file=declaration.file, line=line, end_line=line)
