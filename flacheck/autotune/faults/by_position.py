"""Keys that a release reads past the end of the arguments, or shifted: Triton 3.0 and 3.1 look them
up by position.

What stands in the key is read off the release's own `Autotuner.run`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from flacheck.autotune.examined import KeyFault
from flacheck.autotune.faults.base import Case

_WHY = {
    "past-end": "is looked up past the end of the arguments: the first launch raises IndexError",
    "shifted": "is silently read from another argument, because an omitted one stands before it",
}


def find(case: Case) -> Iterator[KeyFault]:
    for entry in case.audit:
        if entry["fault"] in _WHY:
            yield _fault(case, entry["want"], entry["got"], entry["fault"])


def _fault(case: Case, want: str, got: str | None, kind: str) -> KeyFault:
    """The remedy is in the signature: what the caller omits has to stand behind every key."""
    declared, why = case.tuned.declared, _WHY[kind]
    moved = _omitted(case)
    fault = KeyFault(want, kind, want, got, why)
    if declared is None or declared.file is None:
        return replace(
            fault, fix=f"move {', '.join(moved)} behind all keys in the kernel's signature"
        )
    span, fix = declared.signature, declared.moved_last(moved)
    return replace(fault, file=declared.file, line=span.line, end_line=span.end_line, fix=fix)


def _omitted(case: Case) -> list[str]:
    """What is not there when the autotuner looks its keys up: heuristics above it have put theirs
    in.
    """
    above = case.tuned.declared.heuristics if case.tuned.declared else ()
    omitted = set(case.tuned.launch.omitted) | case.tuned_names
    return [name for name in case.arguments if name in omitted and name not in above]
