"""Float32 gradients, by a promotion or by a float32 residual stream."""

from __future__ import annotations

from pathlib import Path

import pytest

from flacheck import toolchains
from flacheck.capabilities.dtypes import following
from flacheck.capabilities.dtypes.finding import DtypeFinding
from flacheck.capabilities.dtypes.following import DtypesQuestion
from flacheck.capabilities.dtypes.observation import Mode
from tests.captured import needs_torch
from tests.mixed_layers import line_of

pytestmark = needs_torch
_FILE = '''
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def add(x, residual, total, out, D: tl.constexpr):
    i = tl.program_id(0) * D + tl.arange(0, D)
    s = tl.load(x + i) + tl.load(residual + i)
    tl.store(total + i, s)
    tl.store(out + i, s)


@triton.jit
def add_back(do, dtotal, total, dx, dresidual, D: tl.constexpr):
    i = tl.program_id(0) * D + tl.arange(0, D)
    s = tl.load(do + i) * tl.load(total + i) + tl.load(dtotal + i)
    tl.store(dx + i, s)
    tl.store(dresidual + i, s)


@triton.jit
def last(x, weight, out, D: tl.constexpr):
    i = tl.program_id(0) * D + tl.arange(0, D)
    tl.store(out + i, tl.load(x + i) * tl.load(weight + i))


class Add(torch.autograd.Function):
    """The half input and the sum, which has the residual's dtype."""

    @staticmethod
    def forward(ctx, x, residual):
        total = torch.empty(x.shape, dtype=residual.dtype, device=x.device)
        out = torch.empty_like(x)
        add[(x.shape[0],)](x, residual, total, out, D=64)
        ctx.save_for_backward(total)
        ctx.dtype = x.dtype
        return out, total

    @staticmethod
    def backward(ctx, do, dtotal):
        (total,) = ctx.saved_tensors
        dx = torch.empty(total.shape, dtype=ctx.dtype, device=total.device)
        dresidual = torch.empty_like(total)
        add_back[(total.shape[0],)](do, dtotal, total, dx, dresidual, D=64)
        return dx, dresidual


class Last(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        out = torch.empty_like(x)
        last[(x.shape[0],)](x, weight, out, D=64)
        ctx.save_for_backward(x, weight)
        return out

    @staticmethod
    def backward(ctx, do):
        x, weight = ctx.saved_tensors
        dx = torch.empty_like(x)
        last[(x.shape[0],)](do, weight, dx, D=64)
        return dx, None


class Block(nn.Module):
    def __init__(self, hidden_size: int = 64):
        super().__init__()
        self.first = nn.Linear(hidden_size, hidden_size)
        self.second = nn.Linear(hidden_size, hidden_size)
        self.gain = nn.Parameter(torch.zeros(hidden_size))


class Stream(Block):
    """Half branches are added to a residual stream in float32, as under autocast they are."""

    def forward(self, hidden_states):
        y, residual = Add.apply(self.first(hidden_states), hidden_states)
        hidden_states = residual + self.second(y)
        return Last.apply(hidden_states, hidden_states.detach())


class Deep(Block):
    """Two branches are added, one after the other: the second meets a sum."""

    def forward(self, hidden_states):
        y, residual = Add.apply(self.first(hidden_states), hidden_states)
        hidden_states = residual + self.second(y)
        y, residual = Add.apply(self.first(hidden_states), hidden_states)
        hidden_states = residual + self.second(y)
        return Last.apply(hidden_states, hidden_states.detach())


class Promoted(Block):
    """The residual stream is half, and becomes float32 by a parameter."""

    def forward(self, hidden_states):
        start = self.first(hidden_states)
        y, residual = Add.apply(self.second(start), start * self.gain)
        hidden_states = residual + self.second(y)
        return Last.apply(hidden_states, hidden_states.detach())
'''


def _findings(folder: Path, name: str) -> list[DtypeFinding]:
    file = folder / "streams.py"
    file.write_text(_FILE, encoding="utf-8")
    (choice,) = toolchains.resolve(["installed"]).choices
    question = DtypesQuestion(
        targets=(f"{file}:{name}",),
        modes=(Mode("fp16", "fp32"),),
        toolchain=toolchains.provide(choice),
    )
    answer = following.follow(question, folder)
    run = answer.observation.subjects[0].run(question.modes[0])
    assert run is not None
    assert run.error is None
    assert any(launch.kernel == "streams:add_back" for launch in run.launches)
    return following.findings(answer, question.modes)


@pytest.mark.parametrize("name", ["Stream", "Deep"])
def test_the_gradient_of_a_float32_residual_is_no_finding(tmp_path: Path, name: str) -> None:
    """A gradient is float32 because its residual is, after one sum or two."""
    assert _findings(tmp_path, name) == []


def test_the_gradient_of_a_promoted_tensor_is_one(tmp_path: Path) -> None:
    """A promoted residual is named with the kernels of both passes."""
    (finding,) = _findings(tmp_path, "Promoted")
    assert finding.line == line_of(tmp_path / "streams.py", "start * self.gain")
    assert finding.operand == "self.gain"
    arguments = {(each.kernel, each.argument) for each in finding.reached_kernels}
    assert {("streams:add", "residual"), ("streams:add_back", "dtotal")} <= arguments
