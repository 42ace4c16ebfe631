"""What a reduction changed of the launch, and why it may."""

from collections.abc import Iterator, Mapping
from typing import Any

from flacheck.capabilities.repro.kernel.candidates import USUAL_OPTIONS
from flacheck.capabilities.repro.kernel.operation_types import operation_types, worth_telling
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.passes.partial_evaluation import evaluate_constants

_ABSENT = "the compiler's default"
_SAME = "under which the same failure shows"


def changes(original: Specimen, reduced: Specimen) -> Iterator[str]:
    """A sentence for each difference in options, dtypes and precision."""
    yield from _options(original.options, reduced.options)
    before, after = set(original.pointers.values()), set(reduced.pointers.values())
    if after and before != after:
        yield f"dtypes in memory: {_named(before)} → {_named(after)}{_why(reduced)}"
    lost = _precisions(evaluate_constants(original)) - _precisions(reduced)
    if lost:
        yield f"dots of precision {_named(lost)} are gone: the failure is in another operation"


def _why(reduced: Specimen) -> str:
    """Why dtypes in memory may change."""
    of_values = list(map(str, worth_telling(operation_types(reduced))))
    if not of_values:
        return f", {_SAME}"
    return (
        f"; what fails still works on the types that it had ({', '.join(sorted(of_values))}), only "
        "loads and stores around it changed"
    )


def _options(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for name, value in before.items():
        if name not in after and value != USUAL_OPTIONS.get(name):
            yield f"{name}: {value} → {_ABSENT}, {_SAME}"
        elif after.get(name, value) != value:
            yield f"{name}: {value} → {after[name]}, {_SAME}"


def _precisions(specimen: Specimen) -> set[str]:
    """The precisions of the dots of fp32."""
    return {one.precision for one in operation_types(specimen) if one.precision}


def _named(values: set[str]) -> str:
    return ", ".join(sorted(values)) or "none"
