"""Arguments to build and to call a user's own layers."""

from __future__ import annotations

from pathlib import Path

import pytest

from flacheck import toolchains
from flacheck.capabilities.dtypes import following
from flacheck.capabilities.dtypes.following import DtypesQuestion
from flacheck.capabilities.dtypes.observation import Mode, ObservedSubject
from tests.captured import needs_torch

pytestmark = needs_torch
_FILE = """
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def gated(x, g, out, D: tl.constexpr):
    i = tl.program_id(0) * D + tl.arange(0, D)
    tl.store(out + i, tl.load(x + i) * tl.load(g + i))


class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, g):
        out = torch.empty_like(x)
        gated[(x.shape[0],)](x, g, out, D=64)
        ctx.save_for_backward(x, g)
        return out

    @staticmethod
    def backward(ctx, do):
        x, g = ctx.saved_tensors
        # Only a gate with the input's shape has such a view.
        return (do * g).view_as(x), (do * x).view_as(g)


class GatedNorm(nn.Module):
    def __init__(self, hidden_size: int = 64):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))

    def forward(self, x, g):
        return Gated.apply(x, g)


class Sized(nn.Module):
    def __init__(self, hidden_size: int):
        super().__init__()
        assert hidden_size > 0
        self.out = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states):
        return Gated.apply(hidden_states, self.out(hidden_states))


@dataclass
class Settings:
    kind: str = "plain-gated"
    width: int = 64


class Configured(nn.Module):
    def __init__(self, config: Settings):
        super().__init__()
        assert config.kind.split("-")[1] == "gated"
        self.out = nn.Linear(config.width, config.width)

    def forward(self, x):
        return Gated.apply(x, x)
"""


def _follow(folder: Path, name: str) -> ObservedSubject:
    file = folder / "gates.py"
    file.write_text(_FILE, encoding="utf-8")
    (choice,) = toolchains.resolve(["installed"]).choices
    question = DtypesQuestion(
        targets=(f"{file}:{name}",),
        modes=(Mode("bf16", "fp32"),),
        toolchain=toolchains.provide(choice),
    )
    (subject,) = following.follow(question, folder).observation.subjects
    return subject


@pytest.mark.parametrize("name", ["GatedNorm", "Configured", "Sized"])
def test_layers_are_called_so_that_both_passes_work(tmp_path: Path, name: str) -> None:
    """Gates have the input's shape, dataclass configs their defaults, sizes are positive."""
    subject = _follow(tmp_path, name)
    assert subject.errors == ()
    # Mixed, half in both ways, float32.
    assert [run.error for run in subject.runs] == [None] * 4
    assert all(run.launches for run in subject.runs)
