"""Mamba-2: the selective state space model with one decay a token and head (Dao and Gu 2024, arXiv:2405.21060).

    h_t = exp(dt_t a) h_{t-1} + b_t (dt_t x_t)^T        y_t = h_t^T c_t + d x_t

In the names of linear attention: q [B, T, G, K] is the paper's C, k [B, T, G, K] its B and v, o [B, T, H, V] its x and
y, in fp16, bf16 or fp32; the H heads fall into G groups that share q and k. dt [B, T, H], fp32, is the step (positive),
a [H], fp32, the rate (negative), d [H], fp32, the weight of the input in the output. h0 and ht [N, H, K, V], fp32, are
the states before the first and after the last token of each of the N sequences: the B of the batch, or those that
`cu_seqlens` [N + 1] bounds in a batch of one. With g = dt a and values dt x this is simple gated linear attention.
"""

from . import simple_gla
from ._host import check, first_state, walk
from ._recurrent import (
    fused_recurrent_bwd_dkv,
    fused_recurrent_bwd_dq,
    fused_recurrent_fwd,
    global_cumsum,
)
from ._scalar import (
    chunk_bwd_dh,
    chunk_bwd_dqkg,
    chunk_bwd_dv,
    chunk_fwd_h,
    chunk_fwd_o,
    chunk_local_cumsum,
)

OPERATOR = "mamba2"

SHAPES = [
    {"B": 1, "T": 2048, "H": 4, "K": 64, "V": 64},
    {"B": 1, "T": 8192, "H": 4, "K": 128, "V": 128},
    {"B": 1, "T": 8192, "H": 4, "K": 256, "V": 256},
    {"B": 1, "T": 65536, "H": 4, "K": 128, "V": 256},
]

# The shared file declares each kernel; `without` names the arguments that are None here.
KERNELS = {
    "chunk_local_cumsum": {"form": "chunk", "without": []},
    "chunk_fwd_h": {"form": "chunk", "without": ["gk"]},
    "chunk_fwd_o": {"form": "chunk", "without": []},
    "chunk_bwd_dh": {"form": "chunk", "without": ["gq", "gk"]},
    "chunk_bwd_dv": {"form": "chunk", "without": []},
    "chunk_bwd_dqkg": {"form": "chunk", "without": ["dv", "dw"]},
    "fused_recurrent_fwd": {"form": "fused_recurrent", "without": ["gk", "u"]},
    "fused_recurrent_bwd_dq": {"form": "fused_recurrent", "without": ["gk", "u"]},
    "fused_recurrent_bwd_dkv": {"form": "fused_recurrent", "without": ["gk", "u"]},
    "global_cumsum": {"form": "fused_recurrent", "without": []},
}


def inputs(B, T, H, K, V, dtype, device, seed=0):
    """Return random arguments of the host functions below; decays from near 0 to near 1; one group."""
    import torch

    torch.manual_seed(seed)
    q, k = (torch.randn(B, T, 1, K, device=device).to(dtype) for _ in range(2))
    v = torch.randn(B, T, H, V, device=device).to(dtype)
    dt = torch.nn.functional.softplus(2 * torch.randn(B, T, H, device=device) - 1)
    a = -1.0 - torch.arange(H, device=device, dtype=torch.float32)
    d = torch.randn(H, device=device)
    h0 = torch.randn(B, H, K, V, device=device)
    return {"q": q, "k": k, "v": v, "dt": dt, "a": a, "d": d, "h0": h0}


def chunk(q, k, v, dt, a, d, h0=None, cu_seqlens=None):
    """Return (o, ht) in chunks of 64 tokens, with gradients."""
    return skipped(simple_gla.chunk, q, k, v, dt, a, d, h0, cu_seqlens)


def fused_recurrent(q, k, v, dt, a, d, h0=None, cu_seqlens=None):
    """Return (o, ht) token by token, with gradients."""
    return skipped(simple_gla.fused_recurrent, q, k, v, dt, a, d, h0, cu_seqlens)


def skipped(operator, q, k, v, dt, a, d, h0, cu_seqlens):
    """Return (o, ht) by an operator of simple gated linear attention; torch discretises and adds the skip d x."""
    B, T, G, _ = q.shape
    H = v.shape[2]
    check(k=(k, q.shape), dt=(dt, (B, T, H)), a=(a, (H,)), d=(d, (H,)))
    if H % G:
        raise ValueError(f"the {H} heads do not fall into {G} equal groups")
    q, k = (x.repeat_interleave(H // G, 2) for x in (q, k))
    x = (v * dt[..., None]).to(v.dtype)
    o, ht = operator(q, k, x, dt * a, 1.0, h0, cu_seqlens)
    return (o + v * d[:, None]).to(v.dtype), ht


def reference(q, k, v, dt, a, d, h0=None, cu_seqlens=None):
    """Return (o, ht) by the recurrence in float64."""
    H = v.shape[2]
    q, k, v, dt, a, d = (x.double() for x in (q, k, v, dt, a, d))
    q, k = (x.repeat_interleave(H // x.shape[2], 2) for x in (q, k))

    def step(h, t):
        h = h * (dt[:, t] * a).exp()[..., None, None]
        h = h + k[:, t, :, :, None] * (dt[:, t, :, None] * v[:, t])[:, :, None, :]
        return h, (h * q[:, t, :, :, None]).sum(-2) + d[:, None] * v[:, t]

    return walk(step, first_state(q, v.shape[-1], h0, cu_seqlens), q.shape[1], cu_seqlens)
