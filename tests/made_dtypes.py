"""A complete answer of flacheck dtypes, made from values by hand."""

from __future__ import annotations

from flacheck.capabilities.dtypes.costs import Need
from flacheck.capabilities.dtypes.finding import (
    OVERFLOW,
    PROMOTION,
    REJECTION,
    DtypeFinding,
    EndingError,
    ReachedKernel,
    SharedCost,
)
from flacheck.capabilities.dtypes.heads import ACTUAL_DTYPES, INTENDED_DTYPES, HeadNeeds
from flacheck.capabilities.dtypes.observation import Mode, Place
from flacheck.capabilities.dtypes.result import Cure, DtypesResult, NotFollowed

FP16, BF16 = Mode("fp16", "fp32"), Mode("bf16", "fp32")
LAYER = "pkg.layers.mixer:Mixer"
FILE = "pkg/layers/mixer.py"
SHARED = SharedCost("sm90", limit=232_448, intended=49_152, actual=73_728)


def reached_kernel(shared: SharedCost | None = None) -> ReachedKernel:
    return ReachedKernel(
        kernel="pkg.ops.mix:mix_kernel",
        argument="k",
        dtypes={"q": "fp16", "k": "fp32", "v": "fp16"},
        intended_dtypes=dict.fromkeys("qkv", "fp16"),
        shared=shared,
    )


def promotion(mode: Mode, line: int = 8, source: str = "k = k + self.gain") -> DtypeFinding:
    """A parameter that promotes keys."""
    return DtypeFinding(
        PROMOTION,
        LAYER,
        FILE,
        line,
        source,
        operand="self.gain",
        source_dtype=mode.half,
        result_dtype="fp32",
        mode=str(mode),
        place=Place(f"/somewhere/{FILE}", line),
        parameter="gain",
        kind="parameter",
        reached_kernels=(reached_kernel(SHARED),),
    )


def failing_assertion() -> DtypeFinding:
    """A promotion that an assertion refuses, before any kernel is launched."""
    return DtypeFinding(
        PROMOTION,
        LAYER,
        FILE,
        21,
        "g = x * self.scale",
        operand="self.scale",
        source_dtype="fp16",
        result_dtype="fp32",
        mode=str(FP16),
        place=Place(f"/somewhere/{FILE}", 21),
        parameter="decay.scale",
        kind="buffer",
        beyond=(reached_kernel(),),
        error_at_end=EndingError(
            "pkg/ops/mix.py", 3, "assert q.dtype == g.dtype", "AssertionError"
        ),
    )


def invalid_operation() -> DtypeFinding:
    """An operation that raises when it is given both dtypes."""
    text = "RuntimeError: expected dtype c10::Half for `weight` but got dtype float"
    return DtypeFinding(
        REJECTION,
        LAYER,
        FILE,
        30,
        "k = torch.lerp(k, v, self.gain)",
        operand="self.gain",
        source_dtype="fp16",
        result_dtype="fp32",
        mode=str(FP16),
        place=Place(f"/somewhere/{FILE}", 30),
        error_at_end=EndingError(FILE, 30, "k = torch.lerp(k, v, self.gain)", text),
        message=text,
    )


def overflow() -> DtypeFinding:
    """A sum whose exponential float16 cannot hold."""
    return DtypeFinding(
        OVERFLOW,
        LAYER,
        FILE,
        40,
        "w = g.cumsum(1).exp()",
        operand="a sum of 512 terms",
        source_dtype="fp16",
        result_dtype="fp16",
        mode=str(FP16),
        place=Place(f"/somewhere/{FILE}", 40),
        message="the exponential of a sum of 512 terms does not fit into fp16: infinite when every "
        "element that goes in is 0.0625",
    )


def heads(which: str, target: str, needs: dict[int, Need]) -> HeadNeeds:
    dtypes = reached_kernel().dtypes
    if which == INTENDED_DTYPES:
        dtypes = reached_kernel().intended_dtypes
    return HeadNeeds(
        kernel=reached_kernel().kernel,
        mode=FP16,
        target=target,
        which=which,
        dtypes=dtypes,
        needs=needs,
        settings={size: {"head_dim": size} for size in needs},
    )


def answer() -> DtypesResult:
    """Findings of every kind, in one mode and in two, with cures, costs and all that is missing."""
    fits, wide = Need(49_152, True), Need(98_304, True)
    over, broken = Need(270_336, False, "FC501"), Need(None, False, "FC303")
    return DtypesResult(
        about=LAYER,
        modes=(FP16, BF16),
        findings=(
            promotion(FP16),
            failing_assertion(),
            invalid_operation(),
            overflow(),
            promotion(BF16),
        ),
        launch_counts={LAYER: 12, "pkg.layers.plain:Plain": 4},
        not_followed=(
            NotFollowed(
                "pkg.layers.odd:Odd", str(FP16), "build", "ValueError: heads do not divide"
            ),
        ),
        late=("pkg.layers.slow:Slow",),
        stand_ins={"pkg.layers.plain:Plain": ("flash_attn",)},
        modules={"pkg.layers.broken": "ImportError: cannot import name 'x'"},
        cures=(Cure("bf16 autocast, bf16 parameters", 0), Cure(str(BF16), 1)),
        heads=(
            heads(INTENDED_DTYPES, "sm90", {64: fits, 128: wide}),
            heads(ACTUAL_DTYPES, "sm90", {64: wide, 128: over}),
            heads(INTENDED_DTYPES, "sm75", {64: fits, 128: broken}),
            heads(ACTUAL_DTYPES, "sm75", {64: fits, 128: broken}),
        ),
    )
