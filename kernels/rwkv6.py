"""RWKV-6: decays of each row of the state, and a bonus for the token's own key (Peng et al. 2024, arXiv:2404.05892).

    o_t = scale (h_{t-1} + Diag(u) k_t v_t^T)^T q_t        h_t = Diag(exp(g_t)) h_{t-1} + k_t v_t^T

q (the paper's receptance r), k [B, T, H, K] and v, o [B, T, H, V] are fp16, bf16 or fp32; g [B, T, H, K], fp32, is the
natural logarithm of the decay (the paper's log w, at most 0); u [H, K], fp32, is the bonus; h0 and ht [N, H, K, V],
fp32, are the states before the first and after the last token of each of the N sequences: the B of the batch, or those
that `cu_seqlens` [N + 1] bounds in a batch of one.
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

OPERATOR = "rwkv6"

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
    "gated_scores": {"form": "chunk", "without": []},
    "gated_fwd_o": {"form": "chunk", "without": ["A2", "v2"]},
    "chunk_bwd_dh": {"form": "chunk", "without": ["g"]},
    "gated_bwd_dv": {"form": "chunk", "without": ["A2", "do2"]},
    "outer_scores": {"form": "chunk", "without": []},
    "gated_bwd_scores": {"form": "chunk", "without": []},
    "gated_bwd_dqkg": {"form": "chunk", "without": []},
    "fused_recurrent_fwd": {"form": "fused_recurrent", "without": ["g"]},
    "fused_recurrent_bwd_dq": {"form": "fused_recurrent", "without": ["g"]},
    "fused_recurrent_bwd_dkv": {"form": "fused_recurrent", "without": ["g"]},
    "global_cumsum": {"form": "fused_recurrent", "without": []},
}


def inputs(B, T, H, K, V, dtype, device, seed=0):
    """Return random arguments of the host functions below; log decays -exp(x) as in the paper, from near 0 to -20."""
    import torch

    torch.manual_seed(seed)
    q, k = (torch.randn(B, T, H, K, device=device).to(dtype) for _ in range(2))
    v = torch.randn(B, T, H, V, device=device).to(dtype)
    g = -torch.exp((2 * torch.randn(B, T, H, K, device=device) - 2).clamp_max(3.0))
    u = torch.randn(H, K, device=device)
    h0 = torch.randn(B, H, K, V, device=device)
    return {"q": q, "k": k, "v": v, "g": g, "u": u, "scale": K**-0.5, "h0": h0}


def chunk(q, k, v, g, u, scale, h0=None, cu_seqlens=None):
    """Return (o, ht) in chunks of 64 tokens, with gradients."""
    B, T, *_ = check_qkv(q, k, v, h0, cu_seqlens)
    check(g=(g, q.shape), u=(u, q.shape[2:]))
    return attention(q, k, v, g, u, h0, scale, *layout(B, T, cu_seqlens, 64, q.device))


def fused_recurrent(q, k, v, g, u, scale, h0=None, cu_seqlens=None):
    """Return (o, ht) token by token, with gradients."""
    B, T, *_ = check_qkv(q, k, v, h0, cu_seqlens)
    check(g=(g, q.shape), u=(u, q.shape[2:]))
    return recurrence(q, k, v, None, g, u, h0, scale, *layout(B, T, cu_seqlens, 64, q.device))


def reference(q, k, v, g, u, scale, h0=None, cu_seqlens=None):
    """Return (o, ht) by the recurrence in float64."""
    q, k, v, g, u = (x.double() for x in (q, k, v, g, u))

    def step(h, t):
        kv = k[:, t, :, :, None] * v[:, t, :, None, :]
        o = scale * ((h + u[:, :, None] * kv) * q[:, t, :, :, None]).sum(-2)
        return h * g[:, t, :, :, None].exp() + kv, o

    return walk(step, first_state(q, v.shape[-1], h0, cu_seqlens), q.shape[1], cu_seqlens)
