"""Lightning attention: one constant decay a head (Qin et al. 2024, arXiv:2401.04658).

    h_t = exp(g) h_{t-1} + k_t v_t^T        o_t = scale h_t^T q_t

q, k [B, T, H, K] and v, o [B, T, H, V] are fp16, bf16 or fp32; g [H], fp32, is the natural logarithm of each head's
decay (at most 0); h0 and ht [N, H, K, V], fp32, are the states before the first and after the last token of each of the
N sequences: the B of the batch, or those that `cu_seqlens` [N + 1] bounds in a batch of one.
"""

from . import simple_gla
from ._host import check, check_qkv, constant_gate
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

OPERATOR = "lightning_attention"

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
    """Return random arguments of the host functions below, with the paper's decays exp(-8 (h + 1) / H) for head h."""
    import torch

    torch.manual_seed(seed)
    q, k = (torch.randn(B, T, H, K, device=device).to(dtype) for _ in range(2))
    v = torch.randn(B, T, H, V, device=device).to(dtype)
    g = -8.0 / H * (torch.arange(H, device=device, dtype=torch.float32) + 1)
    return {"q": q, "k": k, "v": v, "g": g, "scale": K**-0.5, "h0": torch.randn(B, H, K, V, device=device)}


def chunk(q, k, v, g, scale, h0=None, cu_seqlens=None):
    """Return (o, ht) in chunks of 64 tokens, with gradients."""
    return simple_gla.chunk(q, k, v, token_gate(q, k, v, g, h0, cu_seqlens), scale, h0, cu_seqlens)


def fused_recurrent(q, k, v, g, scale, h0=None, cu_seqlens=None):
    """Return (o, ht) token by token, with gradients."""
    return simple_gla.fused_recurrent(q, k, v, token_gate(q, k, v, g, h0, cu_seqlens), scale, h0, cu_seqlens)


def reference(q, k, v, g, scale, h0=None, cu_seqlens=None):
    """Return (o, ht) by the recurrence in float64."""
    return simple_gla.reference(q, k, v, g.expand(q.shape[:3]), scale, h0, cu_seqlens)


def token_gate(q, k, v, g, h0, cu_seqlens):
    """Return the decay of each token, [B, T, H]; raise ValueError if the arguments do not fit."""
    check_qkv(q, k, v, h0, cu_seqlens)
    check(g=(g, q.shape[2:3]))
    return constant_gate(g, q)
