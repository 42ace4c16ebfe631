"""The kinds of failure: the original, the passes, and how a script detects each kind."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from flacheck.capabilities.repro import passes
from flacheck.capabilities.repro.compilers import Compilers
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.oracle import SameFailure, same_code, same_signature, still_slow
from flacheck.capabilities.repro.original import cut_out, with_autotuner, with_refused_key
from flacheck.capabilities.repro.output import card_script, limits
from flacheck.capabilities.repro.output.symptom import Symptom, readable_words, shorten, words
from flacheck.capabilities.repro.passes.autotuner import SHIFTED_KEY, key_check
from flacheck.capabilities.repro.passes.search import Pass
from flacheck.model import Cell, Record, Verdict
from flacheck.pipeline.measurement.wrong_results import WRONG
from flacheck.tables import targets

SLOW_WORDS = "the compile is slow"
# The timeout of a script's compile: a maintainer's machine may be slower or busy.
_COMPILES = 20
_SHORTEST = 120
# A title is one line of an issue tracker's list.
_TITLE_WORDS = 90


@dataclass(frozen=True)
class FailureKind:
    """The reduction of one kind of failure.

    `first` are the passes that run once, `passes` those that run round after round. `original`
    returns the specimen to start from, `same` the condition for the same failure, and `symptom` the
    way in which a script detects the failure.
    """

    first: Sequence[Pass]
    passes: Sequence[Pass]
    original: Callable[[Cell, Compilers], Specimen]
    same: Callable[[Record], SameFailure]
    symptom: Callable[[Cell, Record, Specimen], Symptom]


def kind_of(cell: Cell, record: Record) -> FailureKind:
    """Return the kind of a failing cell, or of a cell that compiles and may be slow."""
    if record.verdict is Verdict.COMPILES:
        return SLOW
    if record.stage == "ast":
        return REFUSED_SOURCE
    if record.stage == "load":
        return OVER_LIMIT
    if record.code == WRONG:
        return WRONG_RESULT
    if record.code == "FC603":
        return REFUSED_KEY
    if cell.stage in ("autotune", "keys"):
        return TUNER_FAULT
    return FAILING


def _message_symptom(cell: Cell, record: Record, specimen: Specimen) -> Symptom:
    """Return the compiler's own words, or its signal, as the symptom."""
    return Symptom(words(record), title(cell, record), timeout=_timeout(record))


def _over_limit(cell: Cell, record: Record, specimen: Specimen) -> Symptom:
    """Return a symptom whose check compares figures, because the compile ends well."""
    message = words(record)
    check = limits.check(record, targets.find(cell.target), message)
    return Symptom(message, title(cell, record), check, _timeout(record))


def _slow(cell: Cell, record: Record, specimen: Specimen) -> Symptom:
    limit = max(1.0, round(record.compile_seconds / 2, 1))
    check = f'if time.perf_counter() - started > {limit}:  # seconds\n    print("{SLOW_WORDS}")\n'
    prepare = "import time\n\nstarted = time.perf_counter()\n"
    release, gpu = cell.toolchain.replace("==", " "), targets.find(cell.target).name
    slow_title = f"{release} takes {record.compile_seconds:.0f} s to compile this for {gpu}"
    return Symptom(SLOW_WORDS, slow_title, check, _timeout(record), prepare)


def _wrong_result(cell: Cell, record: Record, specimen: Specimen) -> Symptom:
    """Return a symptom whose script launches the kernel and compares its result."""
    release, gpu = cell.toolchain.replace("==", " "), targets.find(cell.target).name
    wrong_title = f"{release} computes a wrong result on {gpu}: {record.message.splitlines()[-1]}"
    script_words, prepare, check = card_script.parts(record)
    return Symptom(script_words, wrong_title, check, _timeout(record), prepare, on_card=True)


def _wrong_key(cell: Cell, record: Record, specimen: Specimen) -> Symptom:
    if record.code == "FC602":
        # The autotuner reads another argument silently, so the script checks its key.
        return Symptom(SHIFTED_KEY, title(cell, record), key_check(specimen))
    return Symptom(words(record), title(cell, record))


# A compile that does not end well, in a pass, LLVM, or the assembler.
FAILING = FailureKind(passes.FIRST, passes.PASSES, cut_out, same_signature, _message_symptom)

# A kernel that the front end refuses: its message depends only on the call at fault.
REFUSED_SOURCE = replace(FAILING, first=passes.FRONT_END)

# A compile that ends well but requires more than the GPU has (FC501 to FC504). A pipeline holds
# most of the memory, and only a loop has a pipeline. Smaller extents require less, so extents stay.
OVER_LIMIT = replace(
    FAILING, first=passes.PIPELINE, passes=passes.PIPELINE_PASSES, symptom=_over_limit
)

# A compile that ends well, but takes many times longer than on other releases (FC921). Every
# compile takes seconds, so slices, which compile fastest, run first and not again as the last pass.
SLOW = replace(
    FAILING, first=passes.SLICES, passes=passes.PASSES[:-1], same=still_slow, symptom=_slow
)

# A compile that ends well, and a binary that computes a wrong result on this machine's GPU (FC706).
WRONG_RESULT = replace(
    FAILING, first=passes.ON_CARD_FIRST, passes=passes.ON_CARD, symptom=_wrong_result
)

# A key that the autotuner reads wrongly, or past the end of the arguments (FC601, FC602).
TUNER_FAULT = FailureKind(passes.TUNING_FIRST, passes.TUNING, with_autotuner, same_code, _wrong_key)

# A key that is not a parameter: the decorator raises as soon as the module is imported (FC603).
REFUSED_KEY = replace(TUNER_FAULT, original=with_refused_key)


def title(cell: Cell, record: Record) -> str:
    """Return `triton 3.2.0 fails on sm90 (NVIDIA H100 80GB HBM3), stage llir: …`, without paths."""
    target = targets.find(cell.target)
    where = f"{target.name} ({target.gpu})"
    if record.stage:
        where += f", stage {record.stage}"
    message = shorten(readable_words(record), _TITLE_WORDS)
    return f"{cell.toolchain.replace('==', ' ')} fails on {where}: {message}"


def _timeout(record: Record) -> int:
    return max(_SHORTEST, round(_COMPILES * record.seconds))
