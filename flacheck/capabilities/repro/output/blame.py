"""The cause of a failure (compiler bug, GPU limit or kernel error) and where to report it."""

import re
from dataclasses import dataclass

from flacheck.model import Cell, Record

_TRITON = "https://github.com/triton-lang/triton/issues/new?template={form}.yml"
# Python errors that a compiler's own code raises by mistake. Other errors of the front end are
# about the kernel.
_INTERNAL = re.compile(
    r"(?:IndexError|KeyError|UnboundLocalError|NameError|RecursionError|'NoneType'|"
    r"AssertionError:? *$|object has no attribute|takes \d+ positional argument)"
)
# Intended errors of the front end, about a feature that the kernel uses.
_MISSING_FEATURE = re.compile(r"has no attribute '\w+'|have been removed|No module named")
# Errors of LLVM about inline assembly.
_ASSEMBLY = re.compile(r"for constraint '|invalid instruction|inline asm", re.IGNORECASE)


@dataclass(frozen=True)
class Blame:
    """The cause in a word or two (`what`), the reason in a sentence, the place to report it."""

    what: str
    why: str
    where: str


def blame(cell: Cell, record: Record, kernel_text: str) -> Blame:
    """Return the cause of a record's failure."""
    owner = f"where {cell.kernel.name} is maintained"
    if cell.kernel.package:
        owner = f"with {cell.kernel.package.partition('==')[0]}, which the kernel belongs to"
    code = record.code
    message = record.message.partition("\n")[0]
    upstream = _TRITON.format(form="bug")
    if code == "FC921":
        why = "The compile ends, but takes many times longer than on other releases."
        return Blame("compiler bug (slow compile)", why, _TRITON.format(form="performance"))
    if record.stage == "run":
        why = "The kernel compiles, and its binary computes something else than another release's."
        return Blame("compiler bug, or a race of the kernel", why, upstream)
    if record.stage == "load":
        why = "The kernel compiles and asks for more than a block can have on this GPU."
        return Blame("limit of the GPU", why, owner)
    if code == "FC603" or (record.stage == "ast" and not _is_internal(message)):
        why = "The front end refuses the source of the kernel."
        if _MISSING_FEATURE.search(message):
            why = "The kernel uses an API that this release lacks."
        return Blame("error of the kernel", why, owner)
    refuses_assembly = record.stage == "cubin" or _ASSEMBLY.search(message)
    if "inline_asm" in kernel_text and refuses_assembly:
        why = "The assembler refuses instructions that the kernel writes itself."
        return Blame("error of the kernel", why, owner)
    if code in ("FC601", "FC602"):
        why = "The autotuner looks its keys up in the wrong list."
        return Blame("compiler bug (autotuner)", why, upstream)
    if record.stage in ("cubin", "hsaco"):
        why = "The compiler writes code that its own assembler refuses."
        return Blame("compiler bug", why, upstream)
    why = "The front end accepts the kernel, and a later stage of the compiler fails."
    if record.stage == "ast":
        why = "The compiler's front end fails in its own code."
    return Blame("compiler bug", why, upstream)


def _is_internal(message: str) -> bool:
    return bool(_INTERNAL.search(message)) and not _MISSING_FEATURE.search(message)
