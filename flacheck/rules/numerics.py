"""FC7xx: dtype contracts, mixed precision, known miscompiles."""

from __future__ import annotations

from flacheck.rules.base import FLA_ISSUES, Rule, text

NUMERICS = (
    Rule(
        code="FC701",
        name="promotion",
        title="operands reach a kernel in different dtypes under mixed precision",
        summary="An operator asserts that its operands share a dtype, and one of them was promoted on the way.",
        cause="Under autocast most layers give fp16 or bf16, but arithmetic with a parameter kept in fp32 gives fp32 "
        "again; the operand that passed through it no longer matches the others.",
        remedy="Cast that operand back to the dtype of the others before the call (`k = k.to(q.dtype)`), run the layer "
        "without autocast, or use a release of the package that does so.",
        # Triton's own check of a dot's operands (lhs, rhs) is about a kernel's source, not about
        # its callers.
        patterns=text(
            r"^[ \t]*assert (?P<contract>(?!lhs\.)[\w.]+\.dtype(?: == [\w.]+\.dtype)+)[^\n]*\n"
            r"(?:[ \t^~]*\n)?(?:\w+\.)*AssertionError\b(?:: (?P<dtypes>[^\n]+))?",
        ),
        links=(f"{FLA_ISSUES}/301",),
        specificity=80,
        confidence="medium",
    ),
)
