"""FC4xx: the assembler that turns PTX or AMD assembly into a binary."""

from __future__ import annotations

from flacheck.rules.base import TRITON_ISSUES, Rule, text

ASSEMBLER = (
    Rule(
        code="FC401",
        name="feature-needs-target",
        title="ptxas: the code uses a feature that this GPU does not have",
        summary="The compiler wrote PTX that only a newer architecture can run.",
        cause="The kernel works in a type or with an instruction that came with a later GPU (bf16 needs sm80), and "
        "this release of the compiler does not emulate it.",
        remedy="Use fp16 or fp32 on this GPU, or a release that emulates the feature: Triton 3.4.0 compiles bf16 for "
        "sm70 and sm75.",
        patterns=text(
            r"Feature '(?P<feature>[^'\n]+)' requires \.target (?P<requires>\w+)",
            r"Instruction '(?P<feature>[^'\n]+)' (?:not supported on \.target|cannot be compiled for architecture) "
            r"'(?P<target>\w+)'",
        ),
        bad=("triton>=3.0.0,<3.3.0",),
        good=("triton>=3.4.0",),
        links=(f"{TRITON_ISSUES}/1941", "https://github.com/unslothai/unsloth/issues/434"),
        specificity=80,
    ),
)
