"""Gated linear attention: one decay a token, head and row of the state (Yang et al. 2024, arXiv:2312.06635).

    h_t = Diag(exp(g_t)) h_{t-1} + k_t v_t^T        o_t = scale h_t^T q_t

q, k [B, T, H, K] and v, o [B, T, H, V] are fp16, bf16 or fp32; g [B, T, H, K], fp32, is the natural logarithm of the
decay (at most 0); h0 and ht [N, H, K, V], fp32, are the states before the first and after the last token of each of the
N sequences: the B of the batch, or those that `cu_seqlens` [N + 1] bounds in a batch of one.
"""

from ._host import check, check_qkv, first_state, layout, walk
from ._recurrent import (
    fused_recurrent_bwd_dkv,
    fused_recurrent_bwd_dq,
    fused_recurrent_fwd,
    global_cumsum,
    recurrence,
)
from ._scalar import chunk_bwd_dh, chunk_fwd_h, chunk_local_cumsum
from ._vector import (
    attention,
    gated_bwd_dqkg,
    gated_bwd_dv,
    gated_bwd_scores,
    gated_fwd_o,
    gated_scores,
    outer_scores,
)

OPERATOR = "gla"

SHAPES = [
    {"B": 1, "T": 2048, "H": 4, "K": 64, "V": 64},
    {"B": 1, "T": 8192, "H": 4, "K": 128, "V": 128},
    {"B": 1, "T": 8192, "H": 4, "K": 256, "V": 256},
    {"B": 1, "T": 65536, "H": 4, "K": 128, "V": 256},
]

# The shared files declare each kernel; `without` names the arguments that are None here.
KERNELS = {
    "chunk_local_cumsum": {"form": "chunk", "without": []},
    "chunk_fwd_h": {"form": "chunk", "without": ["g"]},
    "gated_scores": {"form": "chunk", "without": ["u"]},
    "gated_fwd_o": {"form": "chunk", "without": ["A2", "v2"]},
    "chunk_bwd_dh": {"form": "chunk", "without": ["g"]},
    "gated_bwd_dv": {"form": "chunk", "without": ["A2", "do2"]},
    "outer_scores": {"form": "chunk", "without": []},
    "gated_bwd_scores": {"form": "chunk", "without": []},
    "gated_bwd_dqkg": {"form": "chunk", "without": ["u", "du"]},
    "fused_recurrent_fwd": {"form": "fused_recurrent", "without": ["g", "u"]},
    "fused_recurrent_bwd_dq": {"form": "fused_recurrent", "without": ["g", "u"]},
    "fused_recurrent_bwd_dkv": {"form": "fused_recurrent", "without": ["g", "u"]},
    "global_cumsum": {"form": "fused_recurrent", "without": []},
}


def inputs(B, T, H, K, V, dtype, device, seed=0):
    """Return random arguments of the host functions below; decays from near 0 to near 1."""
    import torch

    torch.manual_seed(seed)
    q, k = (torch.randn(B, T, H, K, device=device).to(dtype) for _ in range(2))
    v = torch.randn(B, T, H, V, device=device).to(dtype)
    g = torch.nn.functional.logsigmoid(4 * torch.randn(B, T, H, K, device=device) + 4)
    return {"q": q, "k": k, "v": v, "g": g, "scale": K**-0.5, "h0": torch.randn(B, H, K, V, device=device)}


def chunk(q, k, v, g, scale, h0=None, cu_seqlens=None):
    """Return (o, ht) in chunks of 64 tokens, with gradients."""
    B, T, *_ = check_qkv(q, k, v, h0, cu_seqlens)
    check(g=(g, q.shape))
    return attention(q, k, v, g, None, h0, scale, *layout(B, T, cu_seqlens, 64, q.device))


def fused_recurrent(q, k, v, g, scale, h0=None, cu_seqlens=None):
    """Return (o, ht) token by token, with gradients."""
    B, T, *_ = check_qkv(q, k, v, h0, cu_seqlens)
    check(g=(g, q.shape))
    return recurrence(q, k, v, None, g, None, h0, scale, *layout(B, T, cu_seqlens, 64, q.device))


def reference(q, k, v, g, scale, h0=None, cu_seqlens=None):
    """Return (o, ht) by the recurrence in float64."""
    q, k, v, g = (x.double() for x in (q, k, v, g))

    def step(h, t):
        h = h * g[:, t, :, :, None].exp() + k[:, t, :, :, None] * v[:, t, :, None, :]
        return h, scale * (h * q[:, t, :, :, None]).sum(-2)

    return walk(step, first_state(q, v.shape[-1], h0, cu_seqlens), q.shape[1], cu_seqlens)
