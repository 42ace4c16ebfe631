"""A small layer that mixes dtypes, as a user's own file: its promotion and its contract are what a
test puts in."""

from __future__ import annotations

from pathlib import Path

_FILE = """
import torch
import triton
import triton.language as tl
from torch import nn
from torch.nn import functional as F


@triton.jit
def mix(q, k, v, o, T, D: tl.constexpr):
    i = tl.program_id(0) * D + tl.arange(0, D)
    tl.store(o + i, tl.load(q + i) * tl.load(k + i) + tl.load(v + i))


@triton.jit
def mix_back(do, q, k, dq, T, D: tl.constexpr):
    i = tl.program_id(0) * D + tl.arange(0, D)
    tl.store(dq + i, tl.load(do + i) * tl.load(k + i))


class Mix(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        {contract}
        o = torch.empty_like(v)
        mix[(q.shape[0],)](q, k, v, o, q.shape[1], D=64)
        ctx.save_for_backward(q, k)
        return o

    @staticmethod
    def backward(ctx, do):
        q, k = ctx.saved_tensors
        dq = torch.empty_like(q)
        mix_back[(q.shape[0],)](do, q, k, dq, q.shape[1], D=64)
        return dq, torch.zeros_like(k), do


class Mixer(nn.Module):
    def __init__(self, hidden_size: int = 64, depth=None):
        super().__init__()
        self.to_q = nn.Linear(hidden_size, hidden_size)
        self.to_k = nn.Linear(hidden_size, hidden_size)
        self.to_v = nn.Linear(hidden_size, hidden_size)
        self.gain = nn.Parameter(torch.zeros(hidden_size))
        self.table = torch.arange(hidden_size, device="cuda") / hidden_size

    def forward(self, hidden_states):
        q = self.to_q(hidden_states)
        k = self.to_k(hidden_states)
        v = self.to_v(hidden_states)
        a = q.sigmoid()
        {promotion}
        return Mix.apply(q, k, v)


def mixed(q, k, v):
    return Mix.apply(q, k, v)


def silent(x):
    return x + 1


class Plain(nn.Module):
    def __init__(self, hidden_size: int = 64):
        super().__init__()
        self.out = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states):
        return self.out(hidden_states)


class Needy(nn.Module):
    def __init__(self, plan):
        super().__init__()
        self.out = nn.Linear(plan["width"], plan["width"])

    def forward(self, hidden_states):
        return self.out(hidden_states)
"""
CONTRACT = "assert q.dtype == k.dtype == v.dtype"


def write(folder: Path, name: str, promotion: str = "pass", contract: str = "pass") -> Path:
    """The file, whose lines `line_of` finds."""
    file = folder / f"{name}.py"
    text = _FILE.replace("{promotion}", promotion).replace("{contract}", contract)
    file.write_text(text, encoding="utf-8")
    return file


def line_of(file: Path, text: str) -> int:
    """The number of the line that a text stands on, from 1."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)
