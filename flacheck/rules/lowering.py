"""FC3xx: from TTGIR to LLVM IR, where layouts, conversions and MMA instructions are chosen."""

from __future__ import annotations

from flacheck.rules.base import FLA_ISSUES, TRITON_ISSUES, Rule, text

LOWERING = (
    Rule(
        code="FC301",
        name="conversion-rounding-mode",
        title="the compiler has no conversion between these types for this GPU",
        summary="A conversion of the operands of a dot has no lowering on GPUs before sm80.",
        cause="On GPUs without the matching tensor-core path the compiler turns a dot into multiply-adds and converts "
        "its operands; Triton 3.3.x gives that conversion no rounding mode, even from a type to itself.",
        remedy="Use Triton 3.4.0 or newer, or keep the operands in fp32 on these GPUs. A fused_recurrent form, which "
        "has no dot, compiles too.",
        patterns=text(
            r"^Unsupported conversion from (?P<source>\w+) to (?P<wanted>\w+)\b",
            r"LLVM ERROR: Unsupported rounding mode for conversion",
        ),
        bad=("triton>=3.3.0,<3.4.0",),
        good=("triton>=3.4.0",),
        links=(
            f"{TRITON_ISSUES}/6698",
            f"{FLA_ISSUES}/458",
            "https://github.com/unslothai/unsloth/issues/2491",
        ),
        specificity=80,
    ),
    Rule(
        code="FC302",
        name="linear-layout-assertion",
        title="an assertion about linear layouts failed in the compiler",
        summary="The compiler could not describe a tensor's layout over warps and threads and stopped.",
        cause="A tensor of this shape spread over this many warps leaves the sizes that the layout code expects, "
        "mostly the result of one dot used as an operand of another on Hopper with 8 warps or more.",
        remedy="Use 4 warps or fewer, or a smaller block of the dimension that the warps share (BC=32 in place of 64 "
        "keeps 8 warps in the gated delta rule); otherwise a release that compiles it.",
        # A terminal may have wrapped the function's signature, hence the class that takes line
        # ends.
        patterns=text(
            r"LinearLayout\w*\.cpp:\d+: [^`]{1,2000}?: Assertion [`'](?P<assertion>[^\n]*?)(?:' failed|$)",
        ),
        bad=("triton==3.2.0", "triton>=3.3.0,<3.4.0"),
        good=("triton==3.1.0", "triton>=3.4.0"),
        links=(f"{FLA_ISSUES}/196", f"{TRITON_ISSUES}/4727", f"{TRITON_ISSUES}/4264"),
        specificity=80,
    ),
    Rule(
        code="FC303",
        name="mma-lookup",
        title="the compiler knows no MMA instruction for this dot on this GPU",
        summary="A table of MMA instructions was asked for types that it does not hold (`map::at`).",
        cause="The dot was given a tensor-core layout although this GPU has no instruction for its types: fp32 "
        "operands become tf32, which GPUs before sm80 do not have.",
        remedy='Pass `input_precision="ieee"` to the dot (or set `TRITON_F32_DEFAULT=ieee`), use fp16 operands, or '
        "Triton 3.3.0 or newer.",
        patterns=text(
            r"^(?:\w+\.)*IndexError: (?:map::at|_Map_base::at)[ \t]*$",
            r"^[ \t]*what\(\):\s+(?:map::at|_Map_base::at)[ \t]*$",
        ),
        bad=("triton>=3.0.0,<3.3.0",),
        good=("triton>=3.3.0",),
        links=(
            f"{FLA_ISSUES}/75",
            f"{TRITON_ISSUES}/5557",
            f"{TRITON_ISSUES}/3011",
            "https://github.com/sgl-project/sglang/issues/1058",
        ),
        specificity=70,
    ),
    Rule(
        code="FC304",
        name="slice-layout",
        title="the compiler could not derive a layout for a slice",
        summary="No parent layout was found for a vector that is broadcast against the result of a dot.",
        cause="The layout of a row or column vector is derived from the matrix it is combined with; Triton 3.2.0 "
        "cannot do this for the layout that dots have on sm70.",
        remedy="Use another release for this GPU (3.4.0 or newer compiles both fp16 and bf16), or a form of the "
        "operator without a dot.",
        patterns=text(r"Failed to compute parent layout for slice layout"),
        bad=("triton==3.2.0",),
        good=("triton==3.1.0", "triton>=3.4.0"),
        links=("https://github.com/ModelTC/LightLLM/issues/1030",),
        specificity=80,
    ),
)
