"""Dtypes followed through a user's own layers to their kernels, without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from flacheck import toolchains
from flacheck.capabilities.dtypes import following
from flacheck.capabilities.dtypes.finding import DtypeFinding
from flacheck.capabilities.dtypes.following import DtypesAnswer, DtypesQuestion
from flacheck.capabilities.dtypes.observation import (
    Mode,
    Observation,
    ObservedLaunch,
    ObservedRun,
    ObservedSubject,
    Operand,
    Place,
    Promotion,
)
from tests.captured import needs_torch
from tests.mixed_layers import CONTRACT, line_of, write

pytestmark = needs_torch
FP16, BF16 = Mode("fp16", "fp32"), Mode("bf16", "fp32")
# Each form of a promotion, with its float32 operand.
PROMOTIONS = {
    "k = k.addcmul(k * (a - 1), self.gain)": "self.gain",
    "k = torch.addcmul(k, k * (a - 1), self.gain)": "self.gain",
    "k = k + self.gain": "self.gain",
    "k = torch.where(a > 0.5, k, self.gain)": "self.gain",
    "k = k * self.gain.sigmoid().view(1, -1)": "self.gain.sigmoid().view(1, -1)",
    "k = torch.stack([k, self.gain.expand(k.shape)])[0]": "self.gain.expand(k.shape)",
}
# Lines that give float32 by design, keep float16, or reach no kernel.
HARMLESS = (
    "k = k.clone().addcmul_(k * (a - 1), self.gain)",
    "k = k.clone(); k += self.gain",
    "k = k.float()",
    "k = k.softmax(-1)",
    "k = k * self.gain.exp()",
    "k = F.normalize(k * self.gain, dim=-1)",
    "k = (k + self.gain).to(q.dtype)",
    "k = k * torch.tensor(2.0, device=k.device)",
    "x = k + self.gain",
    "k = k / 1e6",
    "k = self.gain.expand_as(k)",
    # The program accumulates in float32, or computes in it and casts the result.
    "k = torch.zeros(64, device=k.device) + k",
    "k = (k * torch.arange(64.0, device=k.device)).to(q.dtype)",
)
# Values that the program computes in float32 from numbers, and its float32 operand.
TABLES = {
    "k = k * torch.arange(64.0, device=k.device).cos()": "torch.arange(64.0, device=k.device).cos()",
    "k = torch.addcmul(k, k, self.table)": "self.table",
}
WITH_CONTRACT = "k = k.addcmul(k * (1 - a), self.gain)"
INVALID = "k = torch.lerp(k, k * a, self.gain)"
TOO_LARGE = "k = k + (-1e9)"
LINES = (*PROMOTIONS, *TABLES, *HARMLESS, INVALID, TOO_LARGE)


class Layers:
    """A layer in a file of its own for each line, all followed at once."""

    def __init__(self, folder: Path) -> None:
        self.files = {}
        for number, line in enumerate(LINES):
            self.files[line] = write(folder, f"mixed_{number}", line)
        self.files[WITH_CONTRACT] = write(folder, "asserted", WITH_CONTRACT, CONTRACT)
        (choice,) = toolchains.resolve(["installed"]).choices
        question = DtypesQuestion(
            targets=tuple(f"{file}:Mixer" for file in self.files.values()),
            modes=(FP16, BF16),
            toolchain=toolchains.provide(choice),
        )
        self.answer: DtypesAnswer = following.follow(question, folder)
        self._findings = following.findings(self.answer, question.modes)

    def findings(self, line: str, mode: Mode = FP16) -> list[DtypeFinding]:
        subject = f"{self.files[line].stem}:Mixer"
        return [f for f in self._findings if (f.subject, f.mode) == (subject, str(mode))]


@pytest.fixture(scope="module")
def layers(tmp_path_factory: pytest.TempPathFactory) -> Layers:
    return Layers(tmp_path_factory.mktemp("layers"))


def test_every_layer_was_followed(layers: Layers) -> None:
    """Every layer runs forward and backward."""
    subjects = layers.answer.observation.subjects
    assert len(subjects) == len(layers.files)
    assert all(subject.plan for subject in subjects)


@pytest.mark.parametrize("promotion", PROMOTIONS)
def test_a_promotion_is_named_with_its_operand(layers: Layers, promotion: str) -> None:
    """The finding has the line, the wide parameter and the kernels."""
    (finding,) = layers.findings(promotion)
    assert finding.code == "FC701"
    assert (finding.line, finding.source) == (
        line_of(layers.files[promotion], promotion),
        promotion,
    )
    assert (finding.operand, finding.parameter) == (PROMOTIONS[promotion], "gain")
    assert (finding.source_dtype, finding.result_dtype) == ("fp16", "fp32")
    module = layers.files[promotion].stem
    arguments = {(each.kernel, each.argument) for each in finding.reached_kernels}
    assert arguments == {(f"{module}:mix", "k"), (f"{module}:mix_back", "k")}
    assert finding.reached_kernels[0].dtypes == {"q": "fp16", "k": "fp32", "v": "fp16", "o": "fp16"}
    assert finding.reached_kernels[0].intended_dtypes == dict.fromkeys("qkvo", "fp16")


@pytest.mark.parametrize("promotion", TABLES)
def test_a_table_in_float32_promotes(layers: Layers, promotion: str) -> None:
    """A float32 table promotes, although half parameters do not change it."""
    (finding,) = layers.findings(promotion)
    assert (finding.code, finding.operand) == ("FC701", TABLES[promotion])
    assert finding.line == line_of(layers.files[promotion], promotion)
    assert finding.reached_kernels[0].intended_dtypes == dict.fromkeys("qkvo", "fp16")


def test_bfloat16_is_promoted_alike(layers: Layers) -> None:
    """The same lines are found under bfloat16 autocast."""
    for promotion in PROMOTIONS:
        (finding,) = layers.findings(promotion, BF16)
        assert (finding.source_dtype, finding.result_dtype) == ("bf16", "fp32")


def test_the_assertion_that_trips_is_named(layers: Layers) -> None:
    """The cause is the promotion's line; the failing assertion is its consequence."""
    (finding,) = layers.findings(WITH_CONTRACT)
    file = layers.files[WITH_CONTRACT]
    assert finding.line == line_of(file, WITH_CONTRACT)
    assert finding.reached_kernels == ()
    assert finding.error_at_end is not None
    assert (finding.error_at_end.line, finding.error_at_end.source) == (
        line_of(file, CONTRACT),
        CONTRACT,
    )


@pytest.mark.parametrize("harmless", HARMLESS)
def test_what_is_float32_by_design_is_no_finding(layers: Layers, harmless: str) -> None:
    """Explicit casts, in-place operations and tensors that reach no kernel are not findings."""
    assert layers.findings(harmless) == []
    assert layers.findings(harmless, BF16) == []


def test_an_operation_that_refuses_its_operands(layers: Layers) -> None:
    """The error of lerp is reported at its line."""
    (finding,) = layers.findings(INVALID)
    assert finding.code == "FC703"
    assert finding.line == line_of(layers.files[INVALID], INVALID)
    assert finding.operand == "self.gain"
    assert "weight" in finding.message


def test_a_constant_beyond_float16(layers: Layers) -> None:
    """A mask of -1e9 is infinite in float16 and finite in bfloat16."""
    (finding,) = layers.findings(TOO_LARGE)
    assert (finding.code, finding.operand) == ("FC704", "-1e+09")
    assert finding.line == line_of(layers.files[TOO_LARGE], TOO_LARGE)
    assert layers.findings(TOO_LARGE, BF16) == []


def _launch_run(events: tuple[int, ...], params: str, dtype: str) -> ObservedRun:
    """A run that launches a kernel with a half operand `q` and an operand `k`."""
    place = Place(__file__, 1)
    q = Operand("float16", 2, ())
    promotions: tuple[Promotion, ...] = ()
    if events:
        wide = Operand("float32", 1, (), kind="parameter", name="gain")
        promotions = (Promotion(place, True, "forward", (q,), (wide,), "float16", "float32"),)
    launch = ObservedLaunch("kernel", "forward", (), {"q": q, "k": Operand(dtype, 2, events)})
    autocast = "off" if params == "half" else "fp16"
    mode = Mode(autocast, "fp16" if params == "half" else params)
    return ObservedRun(mode, None, promotions, launches=(launch,), order=(0,))


def test_a_finding_does_not_depend_on_the_layers_beside_its_own() -> None:
    """A layer that passes float32 by design does not hide another layer's finding."""
    with_promotion = ObservedSubject(
        "m:A", (_launch_run((0,), "fp32", "float32"), _launch_run((), "half", "float16"))
    )
    by_design = ObservedSubject(
        "m:B", (_launch_run((), "fp32", "float32"), _launch_run((), "half", "float32"))
    )
    modes = (Mode("fp16", "fp32"),)
    for subjects in ((with_promotion,), (with_promotion, by_design), (by_design, with_promotion)):
        answer = DtypesAnswer(Observation(subjects, {}), (), ())
        (finding,) = following.findings(answer, modes)
        assert (finding.subject, finding.parameter) == ("m:A", "gain")
