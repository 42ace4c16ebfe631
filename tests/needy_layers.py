"""Layers that need a compiled package which is not installed, in a user's own file."""

from __future__ import annotations

from pathlib import Path

_FILE = """
import torch
import triton
import triton.language as tl
from torch import nn

try:
    from fast_mixing import mix_fn
except ImportError:
    mix_fn = None


@triton.jit
def copy(x, o, D: tl.constexpr):
    i = tl.program_id(0) * D + tl.arange(0, D)
    tl.store(o + i, tl.load(x + i))


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        o = torch.empty_like(x)
        copy[(x.shape[0],)](x, o, D=64)
        return o

    @staticmethod
    def backward(ctx, do):
        return do


class Needs(nn.Module):
    def __init__(self, hidden_size: int = 64):
        super().__init__()
        self.to_q = nn.Linear(hidden_size, hidden_size)
        self.to_k = nn.Linear(hidden_size, hidden_size)
        self.gain = nn.Parameter(torch.zeros(hidden_size))

    def forward(self, hidden_states):
        q, k = self.to_q(hidden_states), self.to_k(hidden_states)
        {line}
        return Copy.apply(mix_fn(q, k, self.gain))


class Says(Needs):
    def __init__(self, hidden_size: int = 64):
        if mix_fn is None:
            raise ImportError("run `pip install fast-mixing` first")
        super().__init__(hidden_size)


class Own(nn.Module):
    def __init__(self, hidden_size: int = 64):
        super().__init__()
        self.path = "slow" if mix_fn is None else "fast"
        self.to_q = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states):
        assert self.path == "slow"
        return Copy.apply(self.to_q(hidden_states))


class Hopeless(nn.Module):
    def __init__(self, hidden_size: int = 64):
        super().__init__()
        import fast_mixing

        self.width = fast_mixing.width(hidden_size)

    def forward(self, hidden_states):
        return Copy.apply(hidden_states)
"""


def write(folder: Path, line: str = "pass") -> Path:
    """The file; `line` stands before the call of the compiled function."""
    file = folder / "needy.py"
    file.write_text(_FILE.replace("{line}", line), encoding="utf-8")
    return file
