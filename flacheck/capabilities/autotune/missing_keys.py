"""Arguments that change what is compiled but are in no key.

A configuration that was tuned for one binary is then used for another. Launches show this fault if
two of them share a key and differ in a constexpr, or in a property of an argument that the compiler
specialises on. Code shows it if a constexpr decides a branch, a loop's bounds or a tile's side, and
the host code passes a value that does not depend on keys alone. `find_unkeyed_constexprs` lists the
other constexprs that are in no key.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from flacheck.capabilities.autotune.keys import (
    KeyEvidence,
    is_fixed,
    is_tensor,
    plain,
    specialisation,
)
from flacheck.capabilities.autotune.results import Args, KeyFault


def missing(evidence: KeyEvidence) -> Iterator[KeyFault]:
    """Yield the arguments that are missing from the keys."""
    for name in _candidates(evidence):
        pair = _calls_with_one_key(evidence, name)
        if pair is not None:
            yield _fault_of_calls(evidence, name, *pair)
        elif _is_free(evidence, name):
            yield _fault_of_code(evidence, name)


def find_unkeyed_constexprs(evidence: KeyEvidence) -> list[str]:
    """Return the caller's constexprs that are in no key, without those with a fault."""
    faults = {fault.key for fault in missing(evidence)}
    names = evidence.constexprs - faults - set(evidence.heuristics)
    return [name for name in _candidates(evidence) if name in names]


def _candidates(evidence: KeyEvidence) -> list[str]:
    """Return the arguments that a key can hold; tensors' dtypes are in every key."""
    excluded_names = {
        *evidence.tuned_launch.keys,
        *evidence.tuned_names,
        *evidence.do_not_specialize,
    }
    for call in evidence.calls:
        for name, spec in call.items():
            if is_tensor(spec):
                excluded_names.add(name)
    return [name for name in evidence.arguments if name not in excluded_names]


def _calls_with_one_key(evidence: KeyEvidence, name: str) -> tuple[Args, Args] | None:
    """Return two calls with one key that specialise differently on this argument."""
    for calls in evidence.by_key.values():
        first_with: dict[str, Args] = {}
        for call in reversed(calls):
            special = specialisation(call.get(name))
            if special is not None:
                first_with[special] = call
        if len(first_with) > 1:
            *_, other, one = first_with.values()
            return one, other
    return None


def _fault_of_calls(evidence: KeyEvidence, name: str, one: Args, other: Args) -> KeyFault:
    """Return the fault that two calls show, the earlier call first."""
    values = f"{plain(one[name])}, then {plain(other[name])}"
    why = (
        f"changes what is compiled ({values}) and is in no key: "
        "the second call runs with the configuration tuned for the first"
    )
    # A plain integer that is not a stride is a size with any number of values.
    is_size = not is_fixed(one[name]) and "stride" not in name.lower()
    if evidence.is_length(name) or is_size:
        why = f"{why}; as a key it would tune anew for every value"
        return _do_not_specialize(evidence, name, one, why)
    return KeyFault(name, "missing", name, None, why)


def _is_free(evidence: KeyEvidence, name: str) -> bool:
    """Return True for constexprs that decide what is compiled and do not depend on keys alone."""
    tuned_launch = evidence.tuned_launch
    # Without the source it is unknown which parameters are constexprs and what they decide.
    if tuned_launch.declaration is None or name not in evidence.constexprs:
        return False
    if name not in tuned_launch.code.steering:
        return False
    keys = tuple(key for key in tuned_launch.keys if key in evidence.arguments)
    for host in tuned_launch.hosts:
        if name in host.arguments and not host.is_determined_by(name, keys):
            return True
    return False


def _fault_of_code(evidence: KeyEvidence, name: str) -> KeyFault:
    why = "decides a branch, a loop or a tile, the host code passes it freely, and it is in no key"
    if evidence.is_length(name):
        why = f"{why}: each value is compiled anew, and as a key each would be tuned anew"
        return _do_not_specialize(evidence, name, evidence.calls[0], why)
    why = f"{why}: what was tuned for one of its values is used for all"
    return KeyFault(name, "missing", name, None, why)


def _do_not_specialize(evidence: KeyEvidence, name: str, call: Args, why: str) -> KeyFault:
    """Return the fault of a length or a size; the fix is a parameter without specialisation."""
    if is_fixed(call[name]):
        fix = f"    {name},"
    else:
        names = ", ".join(map(repr, [*evidence.do_not_specialize, name]))
        fix = f"@triton.jit(do_not_specialize=[{names}])"
    fault = KeyFault(name, "missing", name, None, why, fix=fix)
    # A cut source has line numbers of a file that does not exist.
    declaration = evidence.in_file
    if declaration is None:
        return fault
    line = declaration.jit_line
    if is_fixed(call[name]):
        for parameter, _, number in declaration.parameters:
            if parameter == name:
                line = number
    return replace(fault, file=declaration.file, line=line, end_line=line)
