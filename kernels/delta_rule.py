"""The delta rule: a key's old value makes room for its new one (Schlag et al. 2021, arXiv:2102.11174).

    h_t = h_{t-1} + k_t (beta_t (v_t - h_{t-1}^T k_t))^T        o_t = scale h_t^T q_t

q, k [B, T, H, K] and v, o [B, T, H, V] are fp16, bf16 or fp32; beta [B, T, H], fp32, is the writing strength; h0 and ht
[N, H, K, V], fp32, are the states before the first and after the last token of each of the N sequences: the B of the
batch, or those that `cu_seqlens` [N + 1] bounds in a batch of one. The chunks are those of Yang et al. 2024,
arXiv:2406.06484. Token by token this is the generalised delta rule with a = k, b = -beta k and values beta v.
"""

from ._delta import (
    apply_scores,
    attention,
    delta_bwd_dh,
    delta_bwd_wy,
    delta_fwd_h,
    recurrence,
    scaled_dot_kkt,
    triangular_inverse,
)
from ._host import check, check_qkv, first_state, layout, walk
from ._recurrent import dplr_recurrent_bwd_dh, dplr_recurrent_bwd_h, dplr_recurrent_fwd
from ._scalar import chunk_bwd_dqkg, chunk_bwd_dv, chunk_fwd_o

OPERATOR = "delta_rule"

SHAPES = [
    {"B": 1, "T": 2048, "H": 4, "K": 64, "V": 64},
    {"B": 1, "T": 8192, "H": 4, "K": 128, "V": 128},
    {"B": 1, "T": 8192, "H": 4, "K": 256, "V": 256},
    {"B": 1, "T": 65536, "H": 4, "K": 128, "V": 256},
]

# The shared files declare each kernel; `without` names the arguments that are None here.
KERNELS = {
    "scaled_dot_kkt": {"form": "chunk", "without": ["g"]},
    "triangular_inverse": {"form": "chunk", "without": []},
    "apply_scores": {"form": "chunk", "without": []},
    "delta_fwd_h": {"form": "chunk", "without": ["k", "v", "g", "gk"]},
    "chunk_fwd_o": {"form": "chunk", "without": ["g"]},
    "chunk_bwd_dv": {"form": "chunk", "without": ["g", "dh"]},
    "delta_bwd_dh": {"form": "chunk", "without": ["g", "gk"]},
    "chunk_bwd_dqkg": {"form": "chunk", "without": ["g", "dg"]},
    "delta_bwd_wy": {"form": "chunk", "without": ["g", "dg"]},
    "dplr_recurrent_fwd": {"form": "fused_recurrent", "without": ["gk"]},
    "dplr_recurrent_bwd_dh": {"form": "fused_recurrent", "without": ["gk"]},
    "dplr_recurrent_bwd_h": {"form": "fused_recurrent", "without": ["gk"]},
}


def inputs(B, T, H, K, V, dtype, device, seed=0):
    """Return random arguments of the host functions below: keys of length one, strengths in (0, 1)."""
    import torch

    torch.manual_seed(seed)
    q, k = (torch.nn.functional.normalize(torch.randn(B, T, H, K, device=device), dim=-1).to(dtype) for _ in range(2))
    v = torch.randn(B, T, H, V, device=device).to(dtype)
    beta = torch.rand(B, T, H, device=device)
    return {"q": q, "k": k, "v": v, "beta": beta, "scale": K**-0.5, "h0": torch.randn(B, H, K, V, device=device)}


def chunk(q, k, v, beta, scale, h0=None, cu_seqlens=None):
    """Return (o, ht) in chunks of 64 tokens, with gradients."""
    B, T, *_ = check_qkv(q, k, v, h0, cu_seqlens)
    check(beta=(beta, q.shape[:3]))
    return attention(q, k, v, None, beta, h0, scale, *layout(B, T, cu_seqlens, 64, q.device))


def fused_recurrent(q, k, v, beta, scale, h0=None, cu_seqlens=None):
    """Return (o, ht) token by token, with gradients."""
    B, T, *_ = check_qkv(q, k, v, h0, cu_seqlens)
    check(beta=(beta, q.shape[:3]))
    return recurrence(q, k, v, None, beta, h0, scale, layout(B, T, cu_seqlens, 64, q.device)[0])


def reference(q, k, v, beta, scale, h0=None, cu_seqlens=None):
    """Return (o, ht) by the recurrence in float64."""
    q, k, v, beta = (x.double() for x in (q, k, v, beta))

    def step(h, t):
        seen = (h * k[:, t, :, :, None]).sum(-2)
        h = h + k[:, t, :, :, None] * (beta[:, t, :, None] * (v[:, t] - seen))[:, :, None, :]
        return h, scale * (h * q[:, t, :, :, None]).sum(-2)

    return walk(step, first_state(q, v.shape[-1], h0, cu_seqlens), q.shape[1], cu_seqlens)
