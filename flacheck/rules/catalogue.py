"""Every rule by its code."""

from __future__ import annotations

from flacheck.rules.assembler import ASSEMBLER
from flacheck.rules.autotuner import AUTOTUNER
from flacheck.rules.base import UNCLASSIFIED, Rule
from flacheck.rules.cuda import CUDA
from flacheck.rules.frontend import FRONTEND
from flacheck.rules.harness import HARNESS
from flacheck.rules.lowering import LOWERING
from flacheck.rules.numerics import NUMERICS
from flacheck.rules.resources import RESOURCES

_UNKNOWN = Rule(
    code=UNCLASSIFIED,
    name="unclassified",
    title="a failure that no rule knows",
    summary="The compiler failed in a way that flacheck has no rule for; its decisive lines are shown as printed.",
    cause="Not known. The decisive lines say what the compiler complained about, the cause before its wrappers.",
    remedy="Search the first decisive line in the compiler's issue tracker, try a neighbouring release or fewer warps, "
    "and report the failure with the smallest kernel that shows it.",
    specificity=0,
    confidence="low",
)

RULES: dict[str, Rule] = {
    rule.code: rule
    for rule in (
        _UNKNOWN,
        *FRONTEND,
        *LOWERING,
        *ASSEMBLER,
        *RESOURCES,
        *AUTOTUNER,
        *NUMERICS,
        *CUDA,
        *HARNESS,
    )
}
