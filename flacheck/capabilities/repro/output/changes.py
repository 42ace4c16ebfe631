"""The changes of a reduction to the launch, with their reasons."""

from collections.abc import Iterator, Mapping
from typing import Any

from flacheck.capabilities.repro.kernel.candidates import USUAL_OPTIONS
from flacheck.capabilities.repro.kernel.operation_types import (
    describe_operations,
    operation_types,
)
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.passes.partial_evaluation import evaluate_constants

_ABSENT = "the compiler's default"
_SAME = "under which the same failure shows"


def changes(original: Specimen, reduction: Specimen) -> Iterator[str]:
    """Yield a sentence for each difference in options, dtypes and precision."""
    yield from _options(original.options, reduction.options)
    before, after = set(original.pointers.values()), set(reduction.pointers.values())
    if after and before != after:
        yield f"dtypes in memory: {_join(before)} → {_join(after)}{_why(reduction)}"
    missing = _precisions(evaluate_constants(original)) - _precisions(reduction)
    if missing:
        yield f"dots of precision {_join(missing)} are gone: the failure is in another operation"


def _why(reduction: Specimen) -> str:
    """Return why dtypes in memory may change."""
    operations = describe_operations(reduction)
    if not operations:
        return f", {_SAME}"
    return (
        f"; what fails still works on the types that it had ({', '.join(operations)}), only "
        "loads and stores around it changed"
    )


def _options(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for name, value in before.items():
        if name not in after and value != USUAL_OPTIONS.get(name):
            yield f"{name}: {value} → {_ABSENT}, {_SAME}"
        elif after.get(name, value) != value:
            yield f"{name}: {value} → {after[name]}, {_SAME}"


def _precisions(specimen: Specimen) -> set[str]:
    """Return the precisions of the dots of fp32."""
    precisions = {operation.precision for operation in operation_types(specimen)}
    return precisions - {""}


def _join(values: set[str]) -> str:
    return ", ".join(sorted(values)) or "none"
