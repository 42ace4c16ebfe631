"""Linear attention: no decay (Katharopoulos et al. 2020, arXiv:2006.16236, without feature map and normaliser).

    h_t = h_{t-1} + k_t v_t^T        o_t = scale h_t^T q_t

q, k [B, T, H, K] and v, o [B, T, H, V] are fp16, bf16 or fp32; h0 and ht [N, H, K, V], fp32, are the states before the
first and after the last token of each of the N sequences: the B of the batch, or those that `cu_seqlens` [N + 1] bounds
in a batch of one.
"""

from ._host import check_qkv, first_state, layout, walk
from ._recurrent import (
    fused_recurrent_bwd_dkv,
    fused_recurrent_bwd_dq,
    fused_recurrent_fwd,
    recurrence,
)
from ._scalar import (
    attention,
    chunk_bwd_dh,
    chunk_bwd_dqkg,
    chunk_bwd_dv,
    chunk_fwd_h,
    chunk_fwd_o,
)

OPERATOR = "linear_attention"

SHAPES = [
    {"B": 1, "T": 2048, "H": 4, "K": 64, "V": 64},
    {"B": 1, "T": 8192, "H": 4, "K": 128, "V": 128},
    {"B": 1, "T": 8192, "H": 4, "K": 256, "V": 256},
    {"B": 1, "T": 65536, "H": 4, "K": 128, "V": 256},
]

# The shared file declares each kernel; `without` names the arguments that are None here.
KERNELS = {
    "chunk_fwd_h": {"form": "chunk", "without": ["g", "gk"]},
    "chunk_fwd_o": {"form": "chunk", "without": ["g"]},
    "chunk_bwd_dh": {"form": "chunk", "without": ["g", "gq", "gk"]},
    "chunk_bwd_dv": {"form": "chunk", "without": ["g"]},
    "chunk_bwd_dqkg": {"form": "chunk", "without": ["g", "dv", "dw", "dg"]},
    "fused_recurrent_fwd": {"form": "fused_recurrent", "without": ["g", "gk", "u"]},
    "fused_recurrent_bwd_dq": {"form": "fused_recurrent", "without": ["g", "gk", "u", "hd"]},
    "fused_recurrent_bwd_dkv": {"form": "fused_recurrent", "without": ["g", "gk", "u", "hd", "ends"]},
}


def inputs(B, T, H, K, V, dtype, device, seed=0):
    """Return random arguments of the host functions below."""
    import torch

    torch.manual_seed(seed)
    q, k = (torch.randn(B, T, H, K, device=device).to(dtype) for _ in range(2))
    v = torch.randn(B, T, H, V, device=device).to(dtype)
    return {"q": q, "k": k, "v": v, "scale": K**-0.5, "h0": torch.randn(B, H, K, V, device=device)}


def chunk(q, k, v, scale, h0=None, cu_seqlens=None):
    """Return (o, ht) in chunks of 64 tokens, with gradients."""
    B, T, *_ = check_qkv(q, k, v, h0, cu_seqlens)
    return attention(q, k, v, None, h0, scale, *layout(B, T, cu_seqlens, 64, q.device))


def fused_recurrent(q, k, v, scale, h0=None, cu_seqlens=None):
    """Return (o, ht) token by token, with gradients."""
    B, T, *_ = check_qkv(q, k, v, h0, cu_seqlens)
    return recurrence(q, k, v, None, None, None, h0, scale, *layout(B, T, cu_seqlens, 64, q.device))


def reference(q, k, v, scale, h0=None, cu_seqlens=None):
    """Return (o, ht) by the recurrence in float64."""
    q, k, v = (x.double() for x in (q, k, v))

    def step(h, t):
        h = h + k[:, t, :, :, None] * v[:, t, :, None, :]
        return h, scale * (h * q[:, t, :, :, None]).sum(-2)

    return walk(step, first_state(q, v.shape[-1], h0, cu_seqlens), q.shape[1], cu_seqlens)
