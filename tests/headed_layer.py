"""A layer with heads in a user's own file.

Keys that a float32 parameter promotes reach a kernel whose tiles are as wide as a head.
"""

from __future__ import annotations

from pathlib import Path

PROMOTION = "k = k * self.gain"
_FILE = f"""
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scores(q, k, o, T, K: tl.constexpr, BT: tl.constexpr):
    rows, wide = tl.arange(0, BT), tl.arange(0, K)
    b_q = tl.load(q + rows[:, None] * K + wide[None, :]).to(tl.float32)
    for i in range(0, T, BT):
        b_k = tl.load(k + (i + rows)[None, :] * K + wide[:, None]).to(tl.float32)
        tl.store(o + rows[:, None] * T + (i + rows)[None, :], tl.dot(b_q, b_k))


class Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k):
        B, T, K = q.shape
        o = torch.empty(B, 64, T, dtype=q.dtype, device=q.device)
        scores[(B,)](q, k, o, T, K=K, BT=64, num_stages=3)
        ctx.save_for_backward(q, k)
        return o

    @staticmethod
    def backward(ctx, do):
        q, k = ctx.saved_tensors
        return torch.zeros_like(q), torch.zeros_like(k)


class Heads(nn.Module):
    def __init__(self, hidden_size: int = 256, head_dim: int = 64):
        super().__init__()
        self.to_q = nn.Linear(hidden_size, head_dim)
        self.to_k = nn.Linear(hidden_size, head_dim)
        self.gain = nn.Parameter(torch.ones(head_dim))

    def forward(self, hidden_states):
        q, k = self.to_q(hidden_states), self.to_k(hidden_states)
        {PROMOTION}
        return Scores.apply(q, k)
"""


def write(folder: Path) -> Path:
    """The file, whose class is `Heads`."""
    file = folder / "headed.py"
    file.write_text(_FILE, encoding="utf-8")
    return file
