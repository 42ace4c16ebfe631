"""The gated delta rule (Yang, Kautz and Hatamizadeh 2024, "Gated Delta Networks", arXiv:2412.06464).

    h_t = exp(g_t) h_{t-1} + k_t (beta_t (v_t - (exp(g_t) h_{t-1})^T k_t))^T        o_t = scale h_t^T q_t

q, k [B, T, H, K] and v, o [B, T, H, V] are fp16, bf16 or fp32; beta and g [B, T, H], fp32: the writing strength and
the natural logarithm of the decay (at most 0); h [B, NT, H, K, V] holds the state before each of the NT chunks of BT
tokens; h0 and ht [B, H, K, V], fp32, are the states before the first and after the last token, or None.

The chunk form needs, per chunk, the inverse of I + A with A_ij = beta_i exp(G_i - G_j) k_i.k_j below the diagonal and
G the running sum of g: with it w = (I + A)^-1 (beta exp(G) k) and u = (I + A)^-1 (beta v), and the values written are
u - w h (the WY form of the product of the chunk's transitions). Backward, and sequences of variable length, which
`cu_seqlens` [N + 1] bounds in a batch of one (h0 and ht are [N, H, K, V] then), run the shared kernels of the delta rule.
"""

import triton
import triton.language as tl

from ._delta import (
    apply_scores,
    attention,
    delta_bwd_dh,
    delta_bwd_wy,
    delta_fwd_h,
    recurrence,
    scaled_dot_kkt,
    triangular_inverse,
    wy,
)
from ._delta import backward as delta_backward
from ._host import differentiable, first_state, layout, walk
from ._recurrent import (
    dplr_recurrent_bwd_dh,
    dplr_recurrent_bwd_h,
    dplr_recurrent_fwd,
    global_cumsum,
)
from ._scalar import chunk_bwd_dqkg, chunk_bwd_dv

OPERATOR = "gated_delta_rule"

SHAPES = [
    {"B": 1, "T": 2048, "H": 4, "K": 64, "V": 64},
    {"B": 1, "T": 8192, "H": 4, "K": 128, "V": 128},
    {"B": 1, "T": 8192, "H": 4, "K": 256, "V": 256},
    {"B": 1, "T": 65536, "H": 4, "K": 128, "V": 256},
]

# fmt: off
KERNELS = {
    "chunk_local_cumsum": {
        "form": "chunk",
        "launch": {
            "args": {
                "g": {"dtype": "fp32", "align": 16}, "G": {"dtype": "fp32", "align": 16}, "T": {"int": "{T}"},
                "H": {"constexpr": "{H}"}, "BT": {"constexpr": 64},
            },
            "omitted": [],
        },
        "configs": [
            {"kwargs": {}, "num_warps": 1, "num_stages": 2},
            {"kwargs": {}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {}, "num_warps": 8, "num_stages": 2},
        ],
        "keys": ["H", "BT"],
    },
    "chunk_scaled_dot_kkt_fwd": {
        "form": "chunk",
        "launch": {
            "args": {
                "k": {"dtype": "{dtype}", "align": 16}, "G": {"dtype": "fp32", "align": 16},
                "beta": {"dtype": "fp32", "align": 16}, "A": {"dtype": "fp32", "align": 16}, "T": {"int": "{T}"},
                "H": {"constexpr": "{H}"}, "K": {"constexpr": "{K}"}, "BT": {"constexpr": 64},
            },
            "omitted": ["BK"],
        },
        "configs": [
            {"kwargs": {"BK": 64}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BK": 64}, "num_warps": 4, "num_stages": 3},
            {"kwargs": {"BK": 64}, "num_warps": 8, "num_stages": 2},
            {"kwargs": {"BK": 32}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {"BK": 32}, "num_warps": 4, "num_stages": 3},
            {"kwargs": {"BK": 128}, "num_warps": 8, "num_stages": 2},
        ],
        "keys": ["H", "K", "BT"],
    },
    "solve_tril": {
        "form": "chunk",
        "launch": {
            "args": {
                "A": {"dtype": "fp32", "align": 16}, "Ai": {"dtype": "{dtype}", "align": 16}, "T": {"int": "{T}"},
                "H": {"constexpr": "{H}"}, "BT": {"constexpr": 64},
            },
            "omitted": [],
        },
        "configs": [
            {"kwargs": {}, "num_warps": 1, "num_stages": 2},
            {"kwargs": {}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {}, "num_warps": 8, "num_stages": 2},
        ],
        "keys": ["H", "BT"],
    },
    "recompute_w_u_fwd": {
        "form": "chunk",
        "launch": {
            "args": {
                "k": {"dtype": "{dtype}", "align": 16}, "v": {"dtype": "{dtype}", "align": 16},
                "beta": {"dtype": "fp32", "align": 16}, "G": {"dtype": "fp32", "align": 16},
                "Ai": {"dtype": "{dtype}", "align": 16}, "w": {"dtype": "{dtype}", "align": 16},
                "u": {"dtype": "{dtype}", "align": 16}, "T": {"int": "{T}"}, "H": {"constexpr": "{H}"},
                "K": {"constexpr": "{K}"}, "V": {"constexpr": "{V}"}, "BT": {"constexpr": 64},
            },
            "omitted": ["BK", "BV"],
        },
        "configs": [
            {"kwargs": {"BK": 64, "BV": 64}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BK": 64, "BV": 64}, "num_warps": 4, "num_stages": 3},
            {"kwargs": {"BK": 64, "BV": 64}, "num_warps": 8, "num_stages": 2},
            {"kwargs": {"BK": 64, "BV": 64}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {"BK": 32, "BV": 32}, "num_warps": 2, "num_stages": 3},
            {"kwargs": {"BK": 128, "BV": 128}, "num_warps": 8, "num_stages": 2},
        ],
        "keys": ["H", "K", "V", "BT"],
    },
    "chunk_fwd_h": {
        "form": "chunk",
        "launch": {
            "args": {
                "k": {"dtype": "{dtype}", "align": 16}, "w": {"dtype": "{dtype}", "align": 16},
                "u": {"dtype": "{dtype}", "align": 16}, "v": {"dtype": "{dtype}", "align": 16},
                "G": {"dtype": "fp32", "align": 16}, "h": {"dtype": "{dtype}", "align": 16}, "h0": None, "ht": None,
                "T": {"int": "{T}"}, "H": {"constexpr": "{H}"}, "K": {"constexpr": "{K}"}, "V": {"constexpr": "{V}"},
                "BT": {"constexpr": 64}, "BK": {"constexpr": "{K}"},
            },
            "omitted": ["BV"],
        },
        "configs": [
            {"kwargs": {"BV": 32}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BV": 32}, "num_warps": 4, "num_stages": 3},
            {"kwargs": {"BV": 16}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {"BV": 64}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BV": 64}, "num_warps": 8, "num_stages": 2},
            {"kwargs": {"BV": 16}, "num_warps": 4, "num_stages": 1},
        ],
        "keys": ["H", "K", "V", "BT", "BK"],
    },
    "chunk_fwd_o": {
        "form": "chunk",
        "launch": {
            "args": {
                "q": {"dtype": "{dtype}", "align": 16}, "k": {"dtype": "{dtype}", "align": 16},
                "v": {"dtype": "{dtype}", "align": 16}, "G": {"dtype": "fp32", "align": 16},
                "h": {"dtype": "{dtype}", "align": 16}, "o": {"dtype": "{dtype}", "align": 16},
                "scale": {"float": 0.125}, "T": {"int": "{T}"}, "H": {"constexpr": "{H}"}, "K": {"constexpr": "{K}"},
                "V": {"constexpr": "{V}"}, "BT": {"constexpr": 64},
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
                "beta": {"dtype": "fp32", "align": 16}, "o": {"dtype": "{dtype}", "align": 16},
                "h0": {"dtype": "fp32", "align": 16}, "ht": {"dtype": "fp32", "align": 16},
                "scale": {"float": 0.125}, "T": {"int": "{T}"}, "H": {"constexpr": "{H}"}, "K": {"constexpr": "{K}"},
                "V": {"constexpr": "{V}"}, "BK": {"constexpr": "{K}"},
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
    "scaled_dot_kkt": {"form": "chunk", "without": []},
    "triangular_inverse": {"form": "chunk", "without": []},
    "apply_scores": {"form": "chunk", "without": []},
    "delta_fwd_h": {"form": "chunk", "without": ["k", "v", "gk"]},
    "chunk_bwd_dv": {"form": "chunk", "without": ["dh"]},
    "delta_bwd_dh": {"form": "chunk", "without": ["gk"]},
    "chunk_bwd_dqkg": {"form": "chunk", "without": []},
    "delta_bwd_wy": {"form": "chunk", "without": []},
    "dplr_recurrent_fwd": {"form": "fused_recurrent", "without": []},
    "dplr_recurrent_bwd_dh": {"form": "fused_recurrent", "without": []},
    "dplr_recurrent_bwd_h": {"form": "fused_recurrent", "without": []},
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


@triton.autotune(
    [triton.Config(**c) for c in KERNELS["chunk_local_cumsum"]["configs"]], KERNELS["chunk_local_cumsum"]["keys"]
)
@triton.jit
def chunk_local_cumsum(g, G, T, H: tl.constexpr, BT: tl.constexpr):
    """Write the running sum of the gate within each chunk."""
    i_t, i_bh = tl.program_id(0), tl.program_id(1).to(tl.int64)
    o_t = i_t * BT + tl.arange(0, BT)
    at = (i_bh // H * T + o_t) * H + i_bh % H
    b_g = tl.load(g + at, mask=o_t < T, other=0.0).to(tl.float32)
    tl.store(G + at, tl.cumsum(b_g, axis=0), mask=o_t < T)


@triton.autotune(
    [triton.Config(**c) for c in KERNELS["chunk_scaled_dot_kkt_fwd"]["configs"]],
    KERNELS["chunk_scaled_dot_kkt_fwd"]["keys"],
)
@triton.jit
def chunk_scaled_dot_kkt_fwd(k, G, beta, A, T, H: tl.constexpr, K: tl.constexpr, BT: tl.constexpr, BK: tl.constexpr):
    """Write A_ij = beta_i exp(G_i - G_j) k_i.k_j for i > j and zero elsewhere; A is [B, T, H, BT]."""
    i_t, i_bh = tl.program_id(0), tl.program_id(1).to(tl.int64)
    i_b, i_h = i_bh // H, i_bh % H
    o_t = tl.arange(0, BT)
    m_t = i_t * BT + o_t < T
    row = (i_b * T + i_t * BT + o_t) * H + i_h
    b_a = tl.zeros([BT, BT], dtype=tl.float32)
    for i_k in range(tl.cdiv(K, BK)):
        o_k = i_k * BK + tl.arange(0, BK)
        b_k = load_tile(k, row * K, o_k, m_t, o_k < K)
        b_a += tl.dot(b_k, tl.trans(b_k))
    b_g = tl.load(G + row, mask=m_t, other=0.0)
    b_beta = tl.load(beta + row, mask=m_t, other=0.0).to(tl.float32)
    lower = (o_t[:, None] > o_t[None, :]) & m_t[:, None]
    decay = tl.exp(tl.where(lower, b_g[:, None] - b_g[None, :], 0.0))
    store_tile(A, row * BT, o_t, m_t, o_t < BT, tl.where(lower, b_a * decay * b_beta[:, None], 0.0))


@triton.jit
def block_16(x, t, T, i: tl.constexpr, j: tl.constexpr, stride: tl.constexpr):
    """Pointers to, and mask of, the 16x16 block (i, j) of the chunk that begins at token t."""
    o = tl.arange(0, 16)
    rows = t + i * 16 + o
    return x + rows[:, None] * stride + (j * 16 + o)[None, :], (rows[:, None] < T) & (o[None, :] < 16)


@triton.jit
def load_16(x, t, T, i: tl.constexpr, j: tl.constexpr, stride: tl.constexpr):
    """The 16x16 block (i, j) of the chunk that begins at token t."""
    at, mask = block_16(x, t, T, i, j, stride)
    return tl.load(at, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def store_16(x, t, T, i: tl.constexpr, j: tl.constexpr, stride: tl.constexpr, value):
    """Write the 16x16 block (i, j) of the chunk that begins at token t."""
    at, mask = block_16(x, t, T, i, j, stride)
    tl.store(at, value.to(x.dtype.element_ty), mask=mask)


@triton.jit
def invert_16(a):
    """(I + a)^-1 for a strictly lower 16x16 block, row after row: x_i = e_i - sum over j < i of a_ij x_j."""
    o = tl.arange(0, 16)
    x = tl.where(o[:, None] == o[None, :], 1.0, 0.0)
    for i in range(1, 16):
        here = (o == i)[:, None]
        a_i = tl.sum(tl.where(here, a, 0.0), axis=0)
        x = tl.where(here, x - tl.sum(a_i[:, None] * x, axis=0)[None, :], x)
    return x


@triton.jit
def times(a, b):
    """a b in full fp32: the error of TF32 would be amplified by the inverse."""
    return tl.dot(a, b, input_precision="ieee")


@triton.autotune([triton.Config(**c) for c in KERNELS["solve_tril"]["configs"]], KERNELS["solve_tril"]["keys"])
@triton.jit
def solve_tril(A, Ai, T, H: tl.constexpr, BT: tl.constexpr):
    """Write (I + A)^-1 for each chunk's strictly lower A; BT is 64 and Ai must be zero on entry.

    The diagonal blocks of 16 are inverted by substitution, the others follow block row by block row:
    X_ij = -X_ii sum over j <= m < i of A_im X_mj.
    """
    i_t, i_bh = tl.program_id(0), tl.program_id(1).to(tl.int64)
    A += (i_bh // H * T * H + i_bh % H) * BT
    Ai += (i_bh // H * T * H + i_bh % H) * BT
    t = i_t * BT
    x_00 = invert_16(load_16(A, t, T, 0, 0, H * BT))
    x_11 = invert_16(load_16(A, t, T, 1, 1, H * BT))
    x_22 = invert_16(load_16(A, t, T, 2, 2, H * BT))
    x_33 = invert_16(load_16(A, t, T, 3, 3, H * BT))
    a_10 = load_16(A, t, T, 1, 0, H * BT)
    a_20 = load_16(A, t, T, 2, 0, H * BT)
    a_21 = load_16(A, t, T, 2, 1, H * BT)
    a_30 = load_16(A, t, T, 3, 0, H * BT)
    a_31 = load_16(A, t, T, 3, 1, H * BT)
    a_32 = load_16(A, t, T, 3, 2, H * BT)
    x_10 = -times(x_11, times(a_10, x_00))
    x_21 = -times(x_22, times(a_21, x_11))
    x_32 = -times(x_33, times(a_32, x_22))
    x_20 = -times(x_22, times(a_20, x_00) + times(a_21, x_10))
    x_31 = -times(x_33, times(a_31, x_11) + times(a_32, x_21))
    x_30 = -times(x_33, times(a_30, x_00) + times(a_31, x_10) + times(a_32, x_20))
    store_16(Ai, t, T, 0, 0, H * BT, x_00)
    store_16(Ai, t, T, 1, 1, H * BT, x_11)
    store_16(Ai, t, T, 2, 2, H * BT, x_22)
    store_16(Ai, t, T, 3, 3, H * BT, x_33)
    store_16(Ai, t, T, 1, 0, H * BT, x_10)
    store_16(Ai, t, T, 2, 1, H * BT, x_21)
    store_16(Ai, t, T, 3, 2, H * BT, x_32)
    store_16(Ai, t, T, 2, 0, H * BT, x_20)
    store_16(Ai, t, T, 3, 1, H * BT, x_31)
    store_16(Ai, t, T, 3, 0, H * BT, x_30)


@triton.autotune(
    [triton.Config(**c) for c in KERNELS["recompute_w_u_fwd"]["configs"]], KERNELS["recompute_w_u_fwd"]["keys"]
)
@triton.jit
def recompute_w_u_fwd(
    k, v, beta, G, Ai, w, u, T, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BT: tl.constexpr,
    BK: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Write w = Ai (beta exp(G) k) and u = Ai (beta v) for one chunk."""
    i_t, i_bh = tl.program_id(0), tl.program_id(1).to(tl.int64)
    i_b, i_h = i_bh // H, i_bh % H
    o_t = tl.arange(0, BT)
    m_t = i_t * BT + o_t < T
    row = (i_b * T + i_t * BT + o_t) * H + i_h
    b_a = load_tile(Ai, row * BT, o_t, m_t, o_t < BT)
    b_beta = tl.load(beta + row, mask=m_t, other=0.0).to(tl.float32)
    b_d = b_beta * tl.exp(tl.load(G + row, mask=m_t, other=0.0))
    for i_v in range(tl.cdiv(V, BV)):
        o_v = i_v * BV + tl.arange(0, BV)
        b_v = load_tile(v, row * V, o_v, m_t, o_v < V)
        b_u = tl.dot(b_a, (b_v * b_beta[:, None]).to(b_v.dtype))
        store_tile(u, row * V, o_v, m_t, o_v < V, b_u)
    for i_k in range(tl.cdiv(K, BK)):
        o_k = i_k * BK + tl.arange(0, BK)
        b_k = load_tile(k, row * K, o_k, m_t, o_k < K)
        b_w = tl.dot(b_a, (b_k * b_d[:, None]).to(b_k.dtype))
        store_tile(w, row * K, o_k, m_t, o_k < K, b_w)


@triton.autotune([triton.Config(**c) for c in KERNELS["chunk_fwd_h"]["configs"]], KERNELS["chunk_fwd_h"]["keys"])
@triton.jit
def chunk_fwd_h(
    k, w, u, v, G, h, h0, ht, T, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BT: tl.constexpr,
    BK: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Write the state before every chunk, in order, and the values v that the chunk writes into it.

    A program keeps BV columns of one head's state; BK covers all K rows, since v needs the whole column.
    """
    i_v, i_bh = tl.program_id(0), tl.program_id(1).to(tl.int64)
    i_b, i_h = i_bh // H, i_bh % H
    o_t, o_k, o_v = tl.arange(0, BT), tl.arange(0, BK), i_v * BV + tl.arange(0, BV)
    m_k, m_v = o_k < K, o_v < V
    b_h = tl.zeros([BK, BV], dtype=tl.float32)
    if h0 is not None:
        b_h += load_tile(h0 + i_bh * K * V, o_k * V, o_v, m_k, m_v).to(tl.float32)
    NT = tl.cdiv(T, BT)
    for i_t in range(NT):
        store_tile(h + ((i_b * NT + i_t) * H + i_h) * K * V, o_k * V, o_v, m_k, m_v, b_h)
        n = tl.minimum(T - i_t * BT, BT)
        m_t = o_t < n
        row = (i_b * T + i_t * BT + o_t) * H + i_h
        b_w = load_tile(w, row * K, o_k, m_t, m_k)
        b_v = load_tile(u, row * V, o_v, m_t, m_v) - tl.dot(b_w, b_h.to(b_w.dtype))
        store_tile(v, row * V, o_v, m_t, m_v, b_v)
        b_last = tl.load(G + (i_b * T + i_t * BT + n - 1) * H + i_h)
        b_g = tl.load(G + row, mask=m_t, other=0.0)
        b_v = b_v * tl.exp(tl.where(m_t, b_last - b_g, 0.0))[:, None]
        b_k = load_tile(k, o_k, row * K, m_k, m_t)
        b_h = b_h * tl.exp(b_last) + tl.dot(b_k, b_v.to(b_k.dtype))
    if ht is not None:
        store_tile(ht + i_bh * K * V, o_k * V, o_v, m_k, m_v, b_h)


@triton.autotune([triton.Config(**c) for c in KERNELS["chunk_fwd_o"]["configs"]], KERNELS["chunk_fwd_o"]["keys"])
@triton.jit
def chunk_fwd_o(
    q, k, v, G, h, o, scale, T, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BT: tl.constexpr,
    BK: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Write BV columns of one chunk's output from the state before it and the values it wrote."""
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
    b_g = tl.load(G + row, mask=m_t, other=0.0)
    lower = (o_t[:, None] >= o_t[None, :]) & m_t[:, None]
    b_a = tl.where(lower, b_a * tl.exp(tl.where(lower, b_g[:, None] - b_g[None, :], 0.0)), 0.0)
    b_v = load_tile(v, row * V, o_v, m_t, m_v)
    b_o = b_o * tl.exp(b_g)[:, None] + tl.dot(b_a.to(b_v.dtype), b_v)
    store_tile(o, row * V, o_v, m_t, m_v, b_o * scale)


@triton.autotune(
    [triton.Config(**c) for c in KERNELS["fused_recurrent_fwd"]["configs"]], KERNELS["fused_recurrent_fwd"]["keys"]
)
@triton.jit
def fused_recurrent_fwd(
    q, k, v, g, beta, o, h0, ht, scale, T, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr,
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
    for i_t in range(T):
        row = (i_b * T + i_t) * H + i_h
        b_q = tl.load(q + row * K + o_k, mask=m_k, other=0.0).to(tl.float32) * scale
        b_k = tl.load(k + row * K + o_k, mask=m_k, other=0.0).to(tl.float32)
        b_v = tl.load(v + row * V + o_v, mask=m_v, other=0.0).to(tl.float32)
        b_h = b_h * tl.exp(tl.load(g + row))
        b_v = (b_v - tl.sum(b_h * b_k[:, None], axis=0)) * tl.load(beta + row)
        b_h = b_h + b_k[:, None] * b_v[None, :]
        b_o = tl.sum(b_h * b_q[:, None], axis=0)
        tl.store(o + row * V + o_v, b_o.to(o.dtype.element_ty), mask=m_v)
    if ht is not None:
        store_tile(ht + i_bh * K * V, o_k * V, o_v, m_k, m_v, b_h)


def inputs(B, T, H, K, V, dtype, device, seed=0):
    """Random arguments of the host functions below: keys of length one, decays and strengths in (0, 1)."""
    import torch

    torch.manual_seed(seed)
    q, k = (torch.nn.functional.normalize(torch.randn(B, T, H, K, device=device), dim=-1).to(dtype) for _ in "qk")
    v = torch.randn(B, T, H, V, device=device).to(dtype)
    g = torch.nn.functional.logsigmoid(torch.randn(B, T, H, device=device) + 2)
    beta = torch.rand(B, T, H, device=device)
    h0 = torch.randn(B, H, K, V, device=device)
    return {"q": q, "k": k, "v": v, "g": g, "beta": beta, "scale": K**-0.5, "h0": h0}


def chunk(q, k, v, g, beta, scale, h0=None, cu_seqlens=None):
    """Return (o, ht) in chunks of 64 tokens, with gradients. A shape that does not fit raises ValueError."""
    B, T, *_ = checked(q, k, v, g, beta)
    if cu_seqlens is not None:
        return attention(q, k, v, g, beta, h0, scale, *layout(B, T, cu_seqlens, 64, q.device))
    return differentiable(chunk_forward, chunk_backward)({"scale": scale}, q, k, v, g, beta, h0)


def chunk_forward(q, k, v, g, beta, h0, scale, BT=64):
    """Return ((o, ht), tensors to keep)."""
    import torch

    B, T, H, K, V = *q.shape, v.shape[-1]
    NT = triton.cdiv(T, BT)
    G, A = torch.empty_like(g), g.new_empty(B, T, H, BT)
    Ai = q.new_zeros(B, T, H, BT)
    chunk_local_cumsum[(NT, B * H)](g, G, T, H=H, BT=BT)
    chunk_scaled_dot_kkt_fwd[(NT, B * H)](k, G, beta, A, T, H=H, K=K, BT=BT)
    solve_tril[(NT, B * H)](A, Ai, T, H=H, BT=BT)
    # Each rounding of the values written would reach all later tokens.
    w, u = torch.empty_like(k), torch.empty_like(v, dtype=torch.float32)
    recompute_w_u_fwd[(NT, B * H)](k, v, beta, G, Ai, w, u, T, H=H, K=K, V=V, BT=BT)
    h, ht = q.new_empty(B, NT, H, K, V), g.new_empty(B, H, K, V)
    written, o = torch.empty_like(u), torch.empty_like(v)
    chunk_fwd_h[lambda meta: (triton.cdiv(V, meta["BV"]), B * H)](
        k, w, u, written, G, h, h0, ht, T, H=H, K=K, V=V, BT=BT, BK=triton.next_power_of_2(K)
    )
    chunk_fwd_o[lambda meta: (triton.cdiv(V, meta["BV"]), NT, B * H)](
        q, k, written, G, h, o, scale, T, H=H, K=K, V=V, BT=BT
    )
    return (o, ht), (q, k, v, G, beta, h, written)


def chunk_backward(kept, do, dht, scale):
    """Return the gradients of q, k, v, g, beta and h0."""
    q, k, v, G, beta, h, written = kept
    sequences, chunks = layout(q.shape[0], q.shape[1], None, 64, q.device)
    Ai, w, u = wy(k, v, beta, G, chunks)
    kept = (q, k, v, G, beta, Ai, w, u, h.flatten(0, 1), written.to(q.dtype))
    return delta_backward(kept, do, dht, scale, sequences, chunks)


def fused_recurrent(q, k, v, g, beta, scale, h0=None, cu_seqlens=None):
    """Return (o, ht) token by token, with gradients. A shape that does not fit raises ValueError."""
    B, T, *_ = checked(q, k, v, g, beta)
    if cu_seqlens is not None:
        return recurrence(q, k, v, g, beta, h0, scale, layout(B, T, cu_seqlens, 64, q.device)[0])
    return differentiable(recurrent_forward, token_backward)({"scale": scale}, q, k, v, g, beta, h0)


def recurrent_forward(q, k, v, g, beta, h0, scale):
    """Return ((o, ht), tensors to keep)."""
    import torch

    B, T, H, K, V = *q.shape, v.shape[-1]
    o, ht = torch.empty_like(v), g.new_empty(B, H, K, V)
    fused_recurrent_fwd[lambda meta: (triton.cdiv(V, meta["BV"]), B * H)](
        q, k, v, g, beta, o, h0, ht, scale, T, H=H, K=K, V=V, BK=triton.next_power_of_2(K)
    )
    return (o, ht), (q, k, v, g, beta, h0)


def token_backward(kept, do, dht, scale):
    """Return the gradients of q, k, v, g, beta and h0, by the generalised delta rule."""
    import torch

    sequences, _ = layout(*kept[0].shape[:2], None, 64, do.device)
    with torch.enable_grad():
        leaves = [x if x is None else x.detach().requires_grad_() for x in kept]
        outputs = recurrence(*leaves, scale, sequences)
    present = [x for x in leaves if x is not None]
    gradients = list(torch.autograd.grad(outputs, present, (do, dht)))
    return [x if x is None else gradients.pop(0) for x in leaves]


def reference(q, k, v, g, beta, scale, h0=None, cu_seqlens=None):
    """Return (o, ht) by the recurrence in float64."""
    q, k, v, g, beta = (x.double() for x in (q, k, v, g, beta))

    def step(h, t):
        h = h * g[:, t].exp()[..., None, None]
        seen = (h * k[:, t, :, :, None]).sum(-2)
        h = h + k[:, t, :, :, None] * (beta[:, t, :, None] * (v[:, t] - seen))[:, :, None, :]
        return h, scale * (h * q[:, t, :, :, None]).sum(-2)

    return walk(step, first_state(q, v.shape[-1], h0, cu_seqlens), q.shape[1], cu_seqlens)


def checked(q, k, v, g, beta):
    """B, T, H, K, V of contiguous arguments that fit together, else ValueError."""
    B, T, H, K = q.shape
    if k.shape != q.shape or v.shape[:3] != q.shape[:3] or g.shape != (B, T, H) or beta.shape != (B, T, H):
        raise ValueError("q and k are [B, T, H, K], v is [B, T, H, V], g and beta are [B, T, H]")
    if not all(x.is_contiguous() for x in (q, k, v, g, beta)):
        raise ValueError("q, k, v, g and beta must be contiguous")
    return B, T, H, K, v.shape[-1]
