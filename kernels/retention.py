"""Retention, forward and backward: the operator of the Retentive Network (Sun et al. 2023, arXiv:2307.08621).

    h_t = exp(g) h_{t-1} + k_t v_t^T        o_t = scale h_t^T q_t

q, k [B, T, H, K] and v, o [B, T, H, V] are fp16, bf16 or fp32; g [H], fp32, is the natural logarithm of each
head's decay (at most 0); h [B, NT, H, K, V] holds the state before each of the NT chunks of BT tokens;
h0 and ht [B, H, K, V], fp32, are the states before the first and after the last token, or None. Sequences of variable
length, which `cu_seqlens` [N + 1] bounds in a batch of one (h0 and ht are [N, H, K, V] then), run the shared kernels of
simple gated linear attention.
"""

import triton
import triton.language as tl

from . import simple_gla
from ._host import constant_gate, differentiable, layout
from ._recurrent import backward as recurrent_backward
from ._recurrent import fused_recurrent_bwd_dkv, fused_recurrent_bwd_dq, global_cumsum
from ._scalar import backward as scalar_backward
from ._scalar import chunk_bwd_dh, chunk_bwd_dqkg, chunk_bwd_dv, chunk_local_cumsum, local_cumsum

OPERATOR = "retention"

SHAPES = [
    {"B": 1, "T": 2048, "H": 4, "K": 64, "V": 64},
    {"B": 1, "T": 8192, "H": 4, "K": 128, "V": 128},
    {"B": 1, "T": 8192, "H": 4, "K": 256, "V": 256},
    {"B": 1, "T": 65536, "H": 4, "K": 128, "V": 256},
]

# fmt: off
KERNELS = {
    "chunk_fwd_h": {
        "form": "chunk",
        "launch": {
            "args": {
                "k": {"dtype": "{dtype}", "align": 16}, "v": {"dtype": "{dtype}", "align": 16},
                "g": {"dtype": "fp32", "align": 16}, "h": {"dtype": "{dtype}", "align": 16},
                "h0": None, "ht": None, "T": {"int": "{T}"}, "H": {"constexpr": "{H}"},
                "K": {"constexpr": "{K}"}, "V": {"constexpr": "{V}"}, "BT": {"constexpr": 64},
            },
            "omitted": ["BK", "BV"],
        },
        "configs": [
            {"kwargs": {"BK": 64, "BV": 64}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BK": 64, "BV": 64}, "num_warps": 4, "num_stages": 3},
            {"kwargs": {"BK": 64, "BV": 64}, "num_warps": 8, "num_stages": 2},
            {"kwargs": {"BK": 32, "BV": 64}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {"BK": 32, "BV": 32}, "num_warps": 2, "num_stages": 3},
            {"kwargs": {"BK": 128, "BV": 64}, "num_warps": 8, "num_stages": 2},
        ],
        "keys": ["H", "K", "V", "BT"],
    },
    "chunk_fwd_o": {
        "form": "chunk",
        "launch": {
            "args": {
                "q": {"dtype": "{dtype}", "align": 16}, "k": {"dtype": "{dtype}", "align": 16},
                "v": {"dtype": "{dtype}", "align": 16}, "g": {"dtype": "fp32", "align": 16},
                "h": {"dtype": "{dtype}", "align": 16}, "o": {"dtype": "{dtype}", "align": 16},
                "scale": {"float": 0.125}, "T": {"int": "{T}"}, "H": {"constexpr": "{H}"},
                "K": {"constexpr": "{K}"}, "V": {"constexpr": "{V}"}, "BT": {"constexpr": 64},
            },
            "omitted": ["BK", "BV"],
        },
        "configs": [
            {"kwargs": {"BK": 64, "BV": 64}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BK": 64, "BV": 64}, "num_warps": 4, "num_stages": 3},
            {"kwargs": {"BK": 64, "BV": 64}, "num_warps": 8, "num_stages": 2},
            {"kwargs": {"BK": 32, "BV": 64}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {"BK": 32, "BV": 32}, "num_warps": 2, "num_stages": 3},
            {"kwargs": {"BK": 64, "BV": 128}, "num_warps": 8, "num_stages": 2},
        ],
        "keys": ["H", "K", "V", "BT"],
    },
    "fused_recurrent_fwd": {
        "form": "fused_recurrent",
        "launch": {
            "args": {
                "q": {"dtype": "{dtype}", "align": 16}, "k": {"dtype": "{dtype}", "align": 16},
                "v": {"dtype": "{dtype}", "align": 16}, "g": {"dtype": "fp32", "align": 16},
                "o": {"dtype": "{dtype}", "align": 16}, "h0": {"dtype": "fp32", "align": 16},
                "ht": {"dtype": "fp32", "align": 16}, "scale": {"float": 0.125}, "T": {"int": "{T}"},
                "H": {"constexpr": "{H}"}, "K": {"constexpr": "{K}"}, "V": {"constexpr": "{V}"},
                "BK": {"constexpr": "{K}"},
            },
            "omitted": ["BV"],
        },
        "configs": [
            {"kwargs": {"BV": 8}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {"BV": 16}, "num_warps": 2, "num_stages": 3},
            {"kwargs": {"BV": 16}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BV": 32}, "num_warps": 4, "num_stages": 3},
            {"kwargs": {"BV": 32}, "num_warps": 8, "num_stages": 2},
        ],
        "keys": ["H", "K", "V"],
    },
    "chunk_local_cumsum": {"form": "chunk", "without": []},
    "chunk_bwd_dh": {"form": "chunk", "without": ["gq", "gk"]},
    "chunk_bwd_dv": {"form": "chunk", "without": []},
    "chunk_bwd_dqkg": {"form": "chunk", "without": ["dv", "dw"]},
    "fused_recurrent_bwd_dq": {"form": "fused_recurrent", "without": ["gk", "u"]},
    "fused_recurrent_bwd_dkv": {"form": "fused_recurrent", "without": ["gk", "u"]},
    "global_cumsum": {"form": "fused_recurrent", "without": []},
}
# fmt: on


@triton.jit
def load_tile(x, rows, cols, m_rows, m_cols):
    """The tile at the given offsets; what the masks leave out is zero."""
    return tl.load(x + rows[:, None] + cols[None, :], mask=m_rows[:, None] & m_cols[None, :], other=0.0)


@triton.jit
def store_tile(x, rows, cols, m_rows, m_cols, value):
    """Write a tile in the element type of its destination."""
    mask = m_rows[:, None] & m_cols[None, :]
    tl.store(x + rows[:, None] + cols[None, :], value.to(x.dtype.element_ty), mask=mask)


@triton.autotune([triton.Config(**c) for c in KERNELS["chunk_fwd_h"]["configs"]], KERNELS["chunk_fwd_h"]["keys"])
@triton.jit
def chunk_fwd_h(
    k, v, g, h, h0, ht, T, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BT: tl.constexpr, BK: tl.constexpr,
    BV: tl.constexpr,
):  # fmt: skip
    """Write the state before every chunk, in order; a program walks one BK x BV tile of one head's state."""
    i_k, i_v, i_bh = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    i_b, i_h = i_bh // H, i_bh % H
    o_t, o_k, o_v = tl.arange(0, BT), i_k * BK + tl.arange(0, BK), i_v * BV + tl.arange(0, BV)
    m_k, m_v = o_k < K, o_v < V
    b_g = tl.load(g + i_h)
    b_h = tl.zeros([BK, BV], dtype=tl.float32)
    if h0 is not None:
        b_h += load_tile(h0 + i_bh * K * V, o_k * V, o_v, m_k, m_v).to(tl.float32)
    NT = tl.cdiv(T, BT)
    for i_t in range(NT):
        store_tile(h + ((i_b * NT + i_t) * H + i_h) * K * V, o_k * V, o_v, m_k, m_v, b_h)
        n = tl.minimum(T - i_t * BT, BT)
        m_t = o_t < n
        row = (i_b * T + i_t * BT + o_t) * H + i_h
        b_k = load_tile(k, o_k, row * K, m_k, m_t)
        b_v = load_tile(v, row * V, o_v, m_t, m_v)
        # The last chunk may be short: its tokens decay towards its own end, and absent ones must not grow.
        b_d = tl.exp(b_g * tl.where(m_t, n - 1 - o_t, 0).to(tl.float32))
        b_h = b_h * tl.exp(b_g * n) + tl.dot(b_k, (b_v * b_d[:, None]).to(b_v.dtype))
    if ht is not None:
        store_tile(ht + i_bh * K * V, o_k * V, o_v, m_k, m_v, b_h)


@triton.autotune([triton.Config(**c) for c in KERNELS["chunk_fwd_o"]["configs"]], KERNELS["chunk_fwd_o"]["keys"])
@triton.jit
def chunk_fwd_o(
    q, k, v, g, h, o, scale, T, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BT: tl.constexpr,
    BK: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Write BV columns of one chunk's output: what the state gives and what the chunk gives itself."""
    i_v, i_t, i_bh = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    i_b, i_h = i_bh // H, i_bh % H
    o_t, o_v = tl.arange(0, BT), i_v * BV + tl.arange(0, BV)
    m_t, m_v = i_t * BT + o_t < T, o_v < V
    row = (i_b * T + i_t * BT + o_t) * H + i_h
    h += ((i_b * tl.cdiv(T, BT) + i_t) * H + i_h) * K * V
    b_o = tl.zeros([BT, BV], dtype=tl.float32)
    b_a = tl.zeros([BT, BT], dtype=tl.float32)
    for i_k in range(tl.cdiv(K, BK)):
        o_k = i_k * BK + tl.arange(0, BK)
        b_q = load_tile(q, row * K, o_k, m_t, o_k < K)
        b_o += tl.dot(b_q, load_tile(h, o_k * V, o_v, o_k < K, m_v))
        b_a += tl.dot(b_q, load_tile(k, o_k, row * K, o_k < K, m_t))
    b_g = tl.load(g + i_h)
    age = o_t[:, None] - o_t[None, :]
    b_a = tl.where(age >= 0, b_a * tl.exp(b_g * tl.where(age >= 0, age, 0).to(tl.float32)), 0.0)
    b_v = load_tile(v, row * V, o_v, m_t, m_v)
    b_o = b_o * tl.exp(b_g * (o_t + 1).to(tl.float32))[:, None] + tl.dot(b_a.to(b_v.dtype), b_v)
    store_tile(o, row * V, o_v, m_t, m_v, b_o * scale)


@triton.autotune(
    [triton.Config(**c) for c in KERNELS["fused_recurrent_fwd"]["configs"]], KERNELS["fused_recurrent_fwd"]["keys"]
)
@triton.jit
def fused_recurrent_fwd(
    q, k, v, g, o, h0, ht, scale, T, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr,
    BV: tl.constexpr,
):  # fmt: skip
    """Walk the recurrence token by token; a program keeps BV columns of one head's state in registers."""
    i_v, i_bh = tl.program_id(0), tl.program_id(1).to(tl.int64)
    i_b, i_h = i_bh // H, i_bh % H
    o_k, o_v = tl.arange(0, BK), i_v * BV + tl.arange(0, BV)
    m_k, m_v = o_k < K, o_v < V
    b_h = tl.zeros([BK, BV], dtype=tl.float32)
    if h0 is not None:
        b_h += load_tile(h0 + i_bh * K * V, o_k * V, o_v, m_k, m_v).to(tl.float32)
    decay = tl.exp(tl.load(g + i_h))
    for i_t in range(T):
        row = (i_b * T + i_t) * H + i_h
        b_q = tl.load(q + row * K + o_k, mask=m_k, other=0.0).to(tl.float32) * scale
        b_k = tl.load(k + row * K + o_k, mask=m_k, other=0.0).to(tl.float32)
        b_v = tl.load(v + row * V + o_v, mask=m_v, other=0.0).to(tl.float32)
        b_h = b_h * decay + b_k[:, None] * b_v[None, :]
        b_o = tl.sum(b_h * b_q[:, None], axis=0)
        tl.store(o + row * V + o_v, b_o.to(o.dtype.element_ty), mask=m_v)
    if ht is not None:
        store_tile(ht + i_bh * K * V, o_k * V, o_v, m_k, m_v, b_h)


def inputs(B, T, H, K, V, dtype, device, seed=0):
    """Random arguments of the host functions below, with the paper's decays 1 - 2^(-5-h) for head h."""
    import torch

    torch.manual_seed(seed)
    q, k = (torch.randn(B, T, H, K, device=device).to(dtype) for _ in range(2))
    v = torch.randn(B, T, H, V, device=device).to(dtype)
    g = torch.log1p(-torch.exp2(-5.0 - torch.arange(H, device=device, dtype=torch.float32)))
    return {"q": q, "k": k, "v": v, "g": g, "scale": K**-0.5, "h0": torch.randn(B, H, K, V, device=device)}


def chunk(q, k, v, g, scale, h0=None, cu_seqlens=None):
    """Return (o, ht) in chunks of 64 tokens, with gradients. A shape that does not fit raises ValueError."""
    checked(q, k, v, g)
    if cu_seqlens is not None:
        return simple_gla.chunk(q, k, v, constant_gate(g, q), scale, h0, cu_seqlens)
    return differentiable(chunk_forward, chunk_backward)({"scale": scale}, q, k, v, g, h0)


def chunk_forward(q, k, v, g, h0, scale, BT=64):
    """Return ((o, ht), tensors to keep)."""
    import torch

    B, T, H, K, V = *q.shape, v.shape[-1]
    NT = triton.cdiv(T, BT)
    h = q.new_empty(B, NT, H, K, V)
    ht = q.new_empty(B, H, K, V, dtype=torch.float32)
    o = torch.empty_like(v)
    chunk_fwd_h[lambda meta: (triton.cdiv(K, meta["BK"]), triton.cdiv(V, meta["BV"]), B * H)](
        k, v, g, h, h0, ht, T, H=H, K=K, V=V, BT=BT
    )
    chunk_fwd_o[lambda meta: (triton.cdiv(V, meta["BV"]), NT, B * H)](q, k, v, g, h, o, scale, T, H=H, K=K, V=V, BT=BT)
    return (o, ht), (q, k, v, g, h)


def chunk_backward(kept, do, dht, scale):
    """Return the gradients of q, k, v, g and h0."""
    q, k, v, g, h = kept
    sequences, chunks = layout(q.shape[0], q.shape[1], None, 64, q.device)
    G = local_cumsum(constant_gate(g, q).flatten(0, 1), chunks)
    dq, dk, dv, dg, dh0 = scalar_backward((q, k, v, G, h), do, dht, scale, sequences, chunks)
    return dq, dk, dv, dg.sum((0, 1)), dh0


def fused_recurrent(q, k, v, g, scale, h0=None, cu_seqlens=None):
    """Return (o, ht) token by token, with gradients. A shape that does not fit raises ValueError."""
    checked(q, k, v, g)
    if cu_seqlens is not None:
        return simple_gla.fused_recurrent(q, k, v, constant_gate(g, q), scale, h0, cu_seqlens)
    return differentiable(recurrent_forward, token_backward)({"scale": scale}, q, k, v, g, h0)


def recurrent_forward(q, k, v, g, h0, scale):
    """Return ((o, ht), tensors to keep)."""
    import torch

    B, T, H, K, V = *q.shape, v.shape[-1]
    ht = q.new_empty(B, H, K, V, dtype=torch.float32)
    o = torch.empty_like(v)
    fused_recurrent_fwd[lambda meta: (triton.cdiv(V, meta["BV"]), B * H)](
        q, k, v, g, o, h0, ht, scale, T, H=H, K=K, V=V, BK=triton.next_power_of_2(K)
    )
    return (o, ht), (q, k, v, g, h0)


def token_backward(kept, do, dht, scale):
    """Return the gradients of q, k, v, g and h0."""
    q, k, v, g, h0 = kept
    sequences, chunks = layout(q.shape[0], q.shape[1], None, 64, q.device)
    kept = (q, k, v, constant_gate(g, q), None, None, h0)
    dq, dk, dv, dg, _, _, dh0 = recurrent_backward(kept, do, dht, scale, sequences, chunks)
    return dq, dk, dv, dg.sum((0, 1)), dh0


def reference(q, k, v, g, scale, h0=None, cu_seqlens=None):
    """Return (o, ht) by the recurrence in float64."""
    return simple_gla.reference(q, k, v, g.expand(q.shape[:3]), scale, h0, cu_seqlens)


def checked(q, k, v, g):
    """B, T, H, K, V of contiguous arguments that fit together, else ValueError."""
    B, T, H, K = q.shape
    if k.shape != q.shape or v.shape[:3] != q.shape[:3] or g.shape != (H,):
        raise ValueError("q and k are [B, T, H, K], v is [B, T, H, V] and g is [H]")
    if not all(x.is_contiguous() for x in (q, k, v, g)):
        raise ValueError("q, k, v and g must be contiguous")
    return B, T, H, K, v.shape[-1]
