"""Launches that the compiler rejects for their mixed dtypes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from flacheck import toolchains
from flacheck.capabilities.dtypes.costs import CostBench
from flacheck.capabilities.dtypes.examination import Experiments, examine
from flacheck.capabilities.dtypes.finding import DtypeFinding
from flacheck.capabilities.dtypes.following import DtypesQuestion
from flacheck.capabilities.dtypes.observation import Mode
from flacheck.capabilities.dtypes.result import DtypesResult
from tests.captured import needs_torch

pytestmark = needs_torch
_FILE = """
import torch
import triton
import triton.language as tl
from torch import nn
from torch.nn import functional as F


@triton.jit
def scores(q, k, o, D: tl.constexpr):
    i = tl.arange(0, D)[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(o + i, tl.dot(tl.load(q + i), tl.load(k + i)))


class Mixer(nn.Module):
    def __init__(self, hidden_size: int = 64):
        super().__init__()
        self.to_q = nn.Linear(hidden_size, hidden_size)
        self.to_k = nn.Linear(hidden_size, hidden_size)
        self.norm = nn.LayerNorm(hidden_size)
        self.gain = nn.Parameter(torch.ones(hidden_size))

    def forward(self, hidden_states):
        q = self.to_q(hidden_states)
        k = self.to_k(hidden_states)
        {line}
        {contract}
        o = torch.empty_like(q)
        scores[(1,)](q, k, o, D=64)
        return o
"""
# Lines that autocast or the program computes in float32.
WIDENING_LINES = (
    "k = k.softmax(-1)",
    "k = F.normalize(k, dim=-1)",
    "k = F.layer_norm(k, (64,))",
    "k = k.exp().cumsum(1)",
    "k = torch.stack([k, k]).sum(0)",
    "k = k.float() * torch.rsqrt(k.float().pow(2).mean(-1, keepdim=True) + 1e-6)",
    "k = self.norm(k.transpose(1, 2).transpose(1, 2))",
    "k = k / k.sum(-1, keepdim=True)",
    "k = k * torch.ones(64, device=k.device)",
)
DIRECT = "k = self.gain.expand_as(k)"
FITTING = (
    "k = k.softmax(-1).to(q.dtype)",
    "k = k * 2",
    "q, k = q.float(), k.float()",
)
# A cast alone, and a promotion whose other operand autocast keeps in float32.
CONTRACT_LINES = ("k = k.softmax(1)", "k = k - k.logsumexp(-1, keepdim=True)")
CONTRACT = "assert q.dtype == k.dtype"
BF16 = Mode("bf16", "fp32")


def examine_files(
    folder: Path, files: Sequence[Path], messages: list[DtypeFinding], name: str = "Mixer"
) -> DtypesResult:
    (choice,) = toolchains.resolve(["installed"]).choices
    question = DtypesQuestion(
        targets=tuple(f"{file}:{name}" for file in files),
        modes=(BF16,),
        toolchain=toolchains.provide(choice),
    )
    bench = CostBench(folder / "store", choice)
    return examine(question, Experiments(bench=bench, costs=False), messages.append)


class Examined:
    """A layer in a file of its own for each line, all examined at once."""

    def __init__(self, folder: Path) -> None:
        self.files: dict[str, Path] = {}
        for number, line in enumerate((*WIDENING_LINES, DIRECT, *FITTING, *CONTRACT_LINES)):
            contract = CONTRACT if line in CONTRACT_LINES else "pass"
            file = folder / f"layer_{number}.py"
            file.write_text(_FILE.format(line=line, contract=contract))
            self.files[line] = file
        self.announced: list[DtypeFinding] = []
        self.result = examine_files(folder, [*self.files.values()], self.announced)

    def findings(self, line: str) -> Iterator[DtypeFinding]:
        for finding in self.result.findings:
            if finding.subject == f"{self.files[line].stem}:Mixer":
                yield finding


@pytest.fixture(scope="module")
def examined_layers(tmp_path_factory: pytest.TempPathFactory) -> Examined:
    return Examined(tmp_path_factory.mktemp("refused"))


@pytest.mark.parametrize("line", WIDENING_LINES)
def test_the_line_that_widens_an_operand_of_a_refused_launch_is_named(
    examined_layers: Examined, line: str
) -> None:
    """The finding is the line that widens one operand of a rejected launch."""
    (finding,) = examined_layers.findings(line)
    text = examined_layers.files[line].read_text().splitlines()
    assert (finding.code, text[finding.line - 1].strip()) == ("FC701", line)
    (kernel,) = finding.reached_kernels
    assert (kernel.argument, kernel.dtypes["q"], kernel.dtypes["k"]) == ("k", "bf16", "fp32")
    assert "FC106" in finding.message


def test_findings_are_announced_once_and_cost_nothing_without_costs(
    examined_layers: Examined,
) -> None:
    """Each finding is announced once, without figures of shared memory."""
    messages = [(each.subject, each.identity) for each in examined_layers.announced]
    assert messages == [(each.subject, each.identity) for each in examined_layers.result.findings]
    for finding in examined_layers.result.findings:
        assert all(kernel.shared is None for kernel in finding.reached_kernels)


def test_a_parameter_that_is_passed_directly_is_named_at_the_launch(
    examined_layers: Examined,
) -> None:
    """A wide parameter that is passed as it is has the launch as its line."""
    (finding,) = examined_layers.findings(DIRECT)
    assert finding.source == "scores[(1,)](q, k, o, D=64)"
    assert finding.operand == "k"


@pytest.mark.parametrize("line", FITTING)
def test_a_launch_that_compiles_is_no_finding(examined_layers: Examined, line: str) -> None:
    """A launch with equal dtypes is not a finding."""
    assert list(examined_layers.findings(line)) == []


@pytest.mark.parametrize("line", CONTRACT_LINES)
def test_a_contract_that_autocast_breaks_is_named_at_the_line(
    examined_layers: Examined, line: str
) -> None:
    """A layer that fails only with mixed dtypes counts as followed."""
    (finding,) = examined_layers.findings(line)
    assert finding.source == line
    assert finding.error_at_end is not None
    assert finding.error_at_end.source == CONTRACT
    assert examined_layers.result.not_followed == ()


def test_the_launches_before_an_error_of_every_dtype_are_judged(tmp_path: Path) -> None:
    """Launches before an error are judged, and the layer counts as not followed."""
    files = []
    for name, line in (("widened", WIDENING_LINES[0]), ("fitting", FITTING[0])):
        file = tmp_path / f"{name}.py"
        text = _FILE.format(line=line, contract="pass")
        file.write_text(text.replace("return o", "raise RuntimeError('too short')"))
        files.append(file)
    result = examine_files(tmp_path, files, [])
    (finding,) = result.findings
    assert (finding.subject, finding.source) == ("widened:Mixer", WIDENING_LINES[0])
    assert {each.subject for each in result.not_followed} == {"widened:Mixer", "fitting:Mixer"}
    assert {each.reason for each in result.not_followed} == {"RuntimeError: too short"}


_CROSS = """
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def attend(q, k, v, o, D: tl.constexpr):
    i = tl.arange(0, D)[:, None] * D + tl.arange(0, D)[None, :]
    scores = tl.dot(tl.load(q + i), tl.load(k + i)).to(q.dtype.element_ty)
    tl.store(o + i, tl.dot(scores, tl.load(v + i)))


class Cross(nn.Module):
    def __init__(self, hidden_size: int = 64):
        super().__init__()
        self.to_q = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states, k: torch.Tensor, v: torch.Tensor):
        q = self.to_q(hidden_states)
        o = torch.empty_like(v)
        attend[(1,)](q, k, v, o, D=64)
        return o
"""


def test_the_arguments_that_a_launch_receives_wide_are_one_finding(tmp_path: Path) -> None:
    """Two wide arguments of a launch are one finding."""
    file = tmp_path / "cross.py"
    file.write_text(_CROSS)
    (finding,) = examine_files(tmp_path, [file], [], "Cross").findings
    assert finding.operand == "k, v"
    assert [kernel.argument for kernel in finding.reached_kernels] == ["k", "v", "o"]
    assert finding.source == "attend[(1,)](q, k, v, o, D=64)"
    assert finding.message.endswith("the dtype of k is up to the caller")
