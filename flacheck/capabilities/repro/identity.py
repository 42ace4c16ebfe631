"""Which failure it is: its operation's types, and the compiler's pass that it ends in."""

import re
from collections.abc import Iterable
from dataclasses import replace

from flacheck.capabilities.repro.compilers import Compilers
from flacheck.capabilities.repro.kernel.operation_types import OperationTypes, operation_types
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.output.symptom import words
from flacheck.capabilities.repro.passes.partial_evaluation import evaluate_constants
from flacheck.model import Record
from flacheck.rules import is_wrapper, normalise

# Releases print each pass before they run it, when they are asked to.
_PASS = re.compile(r"IR Dump Before \w+ \(([\w.-]+)\)")
# The passes of a compile belong to these stages; before and after them there is none.
_OF_PASSES = ("ttir", "ttgir", "llir")
# Words that say less than this name no cause: `map::at` is 7 letters, and three bugs print it.
_TELLING = 16


def original_operations(specimen: Specimen) -> frozenset[OperationTypes]:
    """The operations of the original as it is written and, for more types are known then, with its
    launch's constants in it."""
    return operation_types(specimen) | operation_types(evaluate_constants(specimen))


def is_weak(record: Record) -> bool:
    """Return True if the compiler's message cannot tell the failure from others."""
    function = str(record.signature).split(":")[2].strip("-")
    if function:
        return False
    message = words(record)
    # An exception's name is left out: it belongs to the C++ type, not to the cause.
    return is_wrapper(message) or len(normalise(message)) < _TELLING


def has_passes(record: Record) -> bool:
    """Whether a failure belongs to a stage that is made of passes."""
    return record.stage in _OF_PASSES


def failing_pass(specimen: Specimen, release: str, compilers: Compilers) -> str | None:
    """The compiler's pass that was begun last, None where the release says of none."""
    attempt = compilers.ask(replace(specimen.cell(release)), op="passes")
    begun: Iterable[str] = _PASS.findall(attempt.log)
    return next(reversed(list(begun)), None)
