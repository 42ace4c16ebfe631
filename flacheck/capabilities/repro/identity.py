"""The identity of a failure: the types of its operation, and the compiler pass that fails."""

import re
from dataclasses import replace

from flacheck.capabilities.repro.compilers import Compilers
from flacheck.capabilities.repro.kernel.operation_types import OperationTypes, operation_types
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.output.symptom import words
from flacheck.capabilities.repro.passes.partial_evaluation import evaluate_constants
from flacheck.model import Record
from flacheck.rules import is_wrapper, normalise

# On request, releases print each pass before they run it.
_PASS = re.compile(r"IR Dump Before (?:\w+::)*(\w+) \([\w.-]+\)")
# Only these stages of a compile consist of passes.
_OF_PASSES = ("ttir", "ttgir", "llir")
# A shorter message does not identify a cause: `map::at` is 7 letters, and three bugs print it.
_MIN_MESSAGE = 16


def original_operations(specimen: Specimen) -> frozenset[OperationTypes]:
    """Return the operations of the original, as written and with its launch's constants.

    With the constants more types can be inferred.
    """
    return operation_types(specimen) | operation_types(evaluate_constants(specimen))


def is_weak(record: Record) -> bool:
    """Return True if the compiler's message cannot tell the failure from others."""
    function = str(record.signature).split(":")[2].strip("-")
    if function:
        return False
    message = words(record)
    # The name of an exception is left out: it is the C++ type, not the cause.
    return is_wrapper(message) or len(normalise(message)) < _MIN_MESSAGE


def has_passes(record: Record) -> bool:
    """Return True if a failure belongs to a stage that consists of passes."""
    return record.stage in _OF_PASSES


def failing_pass(specimen: Specimen, release: str, compilers: Compilers) -> str | None:
    """Return the last pass that the compiler began, such as `NVWSInsertAref`.

    Return None if the release prints no passes.
    """
    attempt = compilers.ask(replace(specimen.cell(release)), op="passes")
    passes: list[str] = _PASS.findall(attempt.log)
    return passes[-1] if passes else None
