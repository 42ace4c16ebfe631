"""RWKV-7: the generalised delta rule, transitions diagonal plus low rank (Peng et al. 2025, arXiv:2503.14456).

    h_t = Diag(exp(g_t)) h_{t-1} + b_t (h_{t-1}^T a_t)^T + k_t v_t^T        o_t = scale h_t^T q_t

q (the paper's receptance r), k, a, b [B, T, H, K] and v, o [B, T, H, V] are fp16, bf16 or fp32; g [B, T, H, K], fp32, is
the natural logarithm of the decay (the paper's log w, at most 0); in the paper a is minus the normalised removal key, b
that key times the learning rate in context. h0 and ht [N, H, K, V], fp32, are the states before the first and after the
last token of each of the N sequences: the B of the batch, or those that `cu_seqlens` [N + 1] bounds in a batch of one.

In a chunk, with G the sum of g within it, G' the sum without the token's own, h the state before it, r_t = h_{t-1}^T a_t
and the scores S(x, y, F)_ij = sum_k x_ik y_jk exp(F_ik - G_jk):

    r = (I - S(a, b, G'))^-1 (S(a, k, G') v + (exp(G') a) h), i > j        = u + w h
    o = scale ((exp(G) q) h + S(q, k, G) v + S(q, b, G) r), i >= j
    h' = Diag(exp(G_last)) h + (exp(G_last - G) k)^T v + (exp(G_last - G) b)^T r
"""

import triton

from ._delta import (
    applied,
    apply_scores,
    delta_bwd_dh,
    delta_fwd_h,
    inverse,
    states,
    states_backward,
    triangular_inverse,
)
from ._host import check, check_qkv, differentiable, first_state, layout, walk
from ._recurrent import (
    dplr_recurrence,
    dplr_recurrent_bwd_dh,
    dplr_recurrent_bwd_h,
    dplr_recurrent_fwd,
    global_cumsum,
)
from ._scalar import chunk_local_cumsum
from ._vector import (
    gated_bwd_dqkg,
    gated_bwd_dv,
    gated_bwd_scores,
    gated_fwd_o,
    gated_scores,
    gates,
    outer_scores,
    scores,
    scores_backward,
)

OPERATOR = "rwkv7"

SHAPES = [
    {"B": 1, "T": 2048, "H": 4, "K": 64, "V": 64},
    {"B": 1, "T": 8192, "H": 4, "K": 128, "V": 128},
    {"B": 1, "T": 8192, "H": 4, "K": 256, "V": 256},
    {"B": 1, "T": 65536, "H": 4, "K": 128, "V": 256},
]

# The shared files declare each kernel; `without` names the arguments that are None here.
KERNELS = {
    "chunk_local_cumsum": {"form": "chunk", "without": []},
    "gated_scores": {"form": "chunk", "without": ["u"]},
    "triangular_inverse": {"form": "chunk", "without": []},
    "apply_scores": {"form": "chunk", "without": ["s"]},
    "delta_fwd_h": {"form": "chunk", "without": ["g"]},
    "gated_fwd_o": {"form": "chunk", "without": []},
    "delta_bwd_dh": {"form": "chunk", "without": ["g"]},
    "gated_bwd_dv": {"form": "chunk", "without": []},
    "outer_scores": {"form": "chunk", "without": []},
    "gated_bwd_scores": {"form": "chunk", "without": []},
    "gated_bwd_dqkg": {"form": "chunk", "without": ["u", "du"]},
    "dplr_recurrent_fwd": {"form": "fused_recurrent", "without": []},
    "dplr_recurrent_bwd_dh": {"form": "fused_recurrent", "without": []},
    "dplr_recurrent_bwd_h": {"form": "fused_recurrent", "without": []},
    "global_cumsum": {"form": "fused_recurrent", "without": []},
}


def inputs(B, T, H, K, V, dtype, device, seed=0):
    """Return random arguments of the host functions below; decays as the paper bounds them, and some near 0."""
    import torch

    torch.manual_seed(seed)
    q, k, x = (torch.randn(B, T, H, K, device=device) for _ in range(3))
    v = torch.randn(B, T, H, V, device=device).to(dtype)
    g = -0.606531 * torch.randn(B, T, H, K, device=device).sigmoid()
    g = torch.where(torch.rand(B, T, H, K, device=device) < 0.05, 12 * g, g)
    removal = torch.nn.functional.normalize(x, dim=-1)
    rate = torch.randn(B, T, H, K, device=device).sigmoid()
    q, k, a, b = (x.to(dtype) for x in (q, k, -removal, removal * rate))
    h0 = torch.randn(B, H, K, V, device=device)
    return {"q": q, "k": k, "v": v, "a": a, "b": b, "g": g, "scale": K**-0.5, "h0": h0}


def chunk(q, k, v, a, b, g, scale, h0=None, cu_seqlens=None):
    """Return (o, ht) in chunks of 64 tokens, with gradients."""
    sequences, chunks = checked_layout(q, k, v, a, b, g, h0, cu_seqlens)
    options = {"scale": scale, "sequences": sequences, "chunks": chunks}
    return differentiable(forward, backward)(options, q, k, v, a, b, g, h0)


def to_chunk_end(x, G, chunks):
    """Return exp(G_last - G) x [B, T, H, K] in the dtype of x."""
    ends = (chunks[:, 0] + chunks[:, 1] - 1).repeat_interleave(chunks[:, 1]).long()
    flat = G.flatten(0, 1)
    return (x * (flat[ends] - flat).exp().view(G.shape)).to(x.dtype)


def forward(q, k, v, a, b, g, h0, scale, sequences, chunks, BT=64):
    """Return ((o, ht), tensors to keep)."""
    import torch

    H, K, V, NC = q.shape[2], q.shape[3], v.shape[3], len(chunks)
    GA, G = gates(g, chunks, True)
    # The inverse is of I plus a matrix: minus S(a, b, G').
    Ai = inverse(scores(a, b, GA, G, None, -1.0, chunks, torch.float32, is_strict=True), chunks, q.dtype)
    A_ak = scores(a, k, GA, G, None, 1.0, chunks, q.dtype, is_strict=True)
    A_qk = scores(q, k, G, G, None, scale, chunks, q.dtype)
    A_qb = scores(q, b, G, G, None, scale, chunks, q.dtype)
    w = applied(Ai, (a * GA.exp()).to(a.dtype), None, chunks)
    # Each rounding of the values would reach all later tokens.
    u = applied(Ai, applied(A_ak, v, None, chunks, torch.float32), None, chunks, torch.float32)
    k_end, b_end = (to_chunk_end(x, G, chunks) for x in (k, b))
    h, r, ht = states(b_end, w, u, k_end, v, None, G, h0, sequences, chunks)
    o = torch.empty_like(v)
    gated_fwd_o[lambda meta: (NC * H, triton.cdiv(V, meta["BV"]))](
        q, v, G, h, A_qk, A_qb, r, o, scale, chunks, H=H, K=K, V=V, BT=BT
    )
    return (o, ht), (q, k, v, a, b, GA, G, Ai, A_ak, A_qk, A_qb, w, b_end, h, r)


def backward(kept, do, dht, scale, sequences, chunks, BT=64):
    """Return the gradients of q, k, v, a, b, g and h0."""
    import torch

    q, k, v, a, b, GA, G, Ai, A_ak, A_qk, A_qb, w, b_end, h, r = kept
    H, K, V, NC = q.shape[2], q.shape[3], v.shape[3], len(chunks)
    dx = applied(A_qb, do, None, chunks, is_transposed=True)
    q_start = (q * G.exp()).to(q.dtype)
    dh, dr, dh0 = states_backward(q_start, b_end, w, None, G, do, dx, dht, scale, sequences, chunks)
    # The gradient of S(a, k, G') v + (exp(G') a) h.
    dp = applied(Ai, dr, None, chunks, is_transposed=True)
    dv = torch.empty_like(v)
    gated_bwd_dv[lambda meta: (NC * H, triton.cdiv(V, meta["BV"]))](
        k, G, do, dh, A_qk, A_ak, dp, dv, chunks, H=H, K=K, V=V, BT=BT
    )
    q_k, k_q = scores_backward(q, k, G, G, do, v, scale, chunks)
    q_b, b_q = scores_backward(q, b, G, G, do, r, scale, chunks)
    a_k, k_a = scores_backward(a, k, GA, G, dp, v, 1.0, chunks)
    a_b, b_a = scores_backward(a, b, GA, G, dp, r, 1.0, chunks)
    dq, dk, da, db, dg, dga = (torch.empty_like(G) for _ in range(6))
    grid = lambda meta: (NC * H, triton.cdiv(K, meta["BK"]))  # noqa: E731
    gated_bwd_dqkg[grid](
        q, k, v, G, G, None, h, do, dh, q_k + q_b, k_q + k_a, dq, dk, dg, None, scale, chunks,
        H=H, K=K, V=V, BT=BT, STRICT=0,
    )  # fmt: skip
    gated_bwd_dqkg[grid](
        a, b, r, GA, G, None, h, dp, dh, a_k + a_b, b_q + b_a, da, db, dga, None, 1.0, chunks,
        H=H, K=K, V=V, BT=BT, STRICT=1,
    )  # fmt: skip
    # Both kernels count the decayed state; and a token's own b and query are in neither.
    own = scale * (do.float() * r.float()).sum(-1, keepdim=True)
    dg = dg + dga - decayed_state(h, dh, G, chunks)
    return (dq + own * b).to(q.dtype), dk.to(k.dtype), dv, da.to(a.dtype), (db + own * q).to(b.dtype), dg, dh0


def decayed_state(h, dh, G, chunks):
    """Return exp(G_last) (h dh) [B, T, H, K], summed over the state's columns, at every token of a chunk."""
    ends = (chunks[:, 0] + chunks[:, 1] - 1).long()
    products = (h.float() * dh.float()).sum(-1) * G.flatten(0, 1)[ends].exp()
    return products.repeat_interleave(chunks[:, 1].long(), 0).view(G.shape)


def fused_recurrent(q, k, v, a, b, g, scale, h0=None, cu_seqlens=None):
    """Return (o, ht) token by token, with gradients."""
    sequences, _ = checked_layout(q, k, v, a, b, g, h0, cu_seqlens)
    return dplr_recurrence(q, k, v, a, b, g, h0, scale, sequences)


def checked_layout(q, k, v, a, b, g, h0, cu_seqlens):
    """Return (sequences, chunks); raise ValueError if the arguments do not fit."""
    B, T, *_ = check_qkv(q, k, v, h0, cu_seqlens)
    check(a=(a, q.shape), b=(b, q.shape), g=(g, q.shape))
    return layout(B, T, cu_seqlens, 64, q.device)


def reference(q, k, v, a, b, g, scale, h0=None, cu_seqlens=None):
    """Return (o, ht) by the recurrence in float64."""
    q, k, v, a, b, g = (x.double() for x in (q, k, v, a, b, g))

    def step(h, t):
        r = (h * a[:, t, :, :, None]).sum(-2)
        h = h * g[:, t, :, :, None].exp() + b[:, t, :, :, None] * r[:, :, None, :]
        h = h + k[:, t, :, :, None] * v[:, t, :, None, :]
        return h, scale * (h * q[:, t, :, :, None]).sum(-2)

    return walk(step, first_state(q, v.shape[-1], h0, cu_seqlens), q.shape[1], cu_seqlens)
