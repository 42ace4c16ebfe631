"""The delta rule and its generalisation in chunks, by the WY form of the product of a chunk's transitions.

    h_t = D_t h_{t-1} + b_t r_t^T + k_t v_t^T        r_t = h_{t-1}^T a_t

or, where the rule's values are its only ones, r = u + w h for the state h before the chunk. D_t is exp(g_t), one decay
a head, or Diag(exp(g_t)). For the (gated) delta rule a_t is k_t and b_t is -beta_t k_t; its writing is moved into the
values, so that b is k, and per chunk, with G the sum of g within it,

    A_ij = beta_i exp(G_i - G_j) k_i.k_j, i > j        w = -(I + A)^-1 (beta exp(G) k)        u = (I + A)^-1 (beta v)

(Yang et al. 2024, arXiv:2406.06484; with g Yang, Kautz and Hatamizadeh 2024, arXiv:2412.06464). Layouts are those of
`_tiles`; matrices of a chunk's tokens by its tokens are [NC, BT, H, BT]. The kernels that walk the states keep all K rows
of BV columns, since r needs whole columns.

Backward: with dr the gradient of r, that of w is dr h^T, that of u is dr, and with X = -(I + A)^-T dw, Y = (I + A)^-T dr

    dA = -(Y u^T - X w^T), i > j        d(beta exp(G) k) = X        d(beta v) = Y
"""

import triton
import triton.language as tl

from ._host import differentiable
from ._recurrent import dplr_recurrence
from ._scalar import chunk_bwd_dqkg, chunk_bwd_dv, chunk_fwd_o, local_cumsum
from ._tiles import decay_between, load_chunk, load_sequence, load_tile, store_tile, token_decay
from ._vector import score_matrix, score_rows

# fmt: off
KERNELS = {
    "scaled_dot_kkt": {
        "form": "chunk",
        "launch": {
            "args": {
                "k": {"dtype": "{dtype}", "align": 16}, "g": {"dtype": "fp32", "align": 16},
                "beta": {"dtype": "fp32", "align": 16}, "A": {"dtype": "fp32", "align": 16},
                "chunks": {"dtype": "i32", "align": 16}, "H": {"constexpr": "{H}"}, "K": {"constexpr": "{K}"},
                "BT": {"constexpr": 64},
            },
            "omitted": ["BK"],
        },
        "configs": [
            {"kwargs": {"BK": 64}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BK": 32}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {"BK": 64}, "num_warps": 8, "num_stages": 2},
            {"kwargs": {"BK": 32}, "num_warps": 4, "num_stages": 3},
        ],
        "keys": ["H", "K", "BT"],
    },
    "triangular_inverse": {
        "form": "chunk",
        "launch": {
            "args": {
                "A": {"dtype": "fp32", "align": 16}, "Ai": {"dtype": "{dtype}", "align": 16}, "H": {"constexpr": "{H}"},
                "BT": {"constexpr": 64},
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
    "apply_scores": {
        "form": "chunk",
        "launch": {
            "args": {
                "A": {"dtype": "{dtype}", "align": 16}, "x": {"dtype": "{dtype}", "align": 16},
                "s": {"dtype": "fp32", "align": 16}, "y": {"dtype": "{dtype}", "align": 16},
                "chunks": {"dtype": "i32", "align": 16}, "H": {"constexpr": "{H}"}, "D": {"constexpr": "{K}"},
                "BT": {"constexpr": 64}, "TRANSPOSED": {"constexpr": 0},
            },
            "omitted": ["BD"],
        },
        "configs": [
            {"kwargs": {"BD": 64}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BD": 32}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {"BD": 128}, "num_warps": 8, "num_stages": 2},
            {"kwargs": {"BD": 128}, "num_warps": 4, "num_stages": 2},
        ],
        "keys": ["H", "D", "BT", "TRANSPOSED"],
    },
    "delta_fwd_h": {
        "form": "chunk",
        "launch": {
            "args": {
                "b": {"dtype": "{dtype}", "align": 16}, "w": {"dtype": "{dtype}", "align": 16},
                "u": {"dtype": "fp32", "align": 16}, "k": {"dtype": "{dtype}", "align": 16},
                "v": {"dtype": "{dtype}", "align": 16}, "g": {"dtype": "fp32", "align": 16},
                "gk": {"dtype": "fp32", "align": 16}, "r": {"dtype": "{dtype}", "align": 16},
                "h": {"dtype": "{dtype}", "align": 16}, "h0": {"dtype": "fp32", "align": 16},
                "ht": {"dtype": "fp32", "align": 16}, "sequences": {"dtype": "i32", "align": 16},
                "H": {"constexpr": "{H}"}, "K": {"constexpr": "{K}"}, "V": {"constexpr": "{V}"},
                "BT": {"constexpr": 64}, "BK": {"constexpr": "{K}"},
            },
            "omitted": ["BV"],
        },
        "configs": [
            {"kwargs": {"BV": 16}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {"BV": 32}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BV": 16}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BV": 32}, "num_warps": 8, "num_stages": 2},
        ],
        "keys": ["H", "K", "V", "BT", "BK"],
    },
    "delta_bwd_dh": {
        "form": "chunk",
        "launch": {
            "args": {
                "q": {"dtype": "{dtype}", "align": 16}, "b": {"dtype": "{dtype}", "align": 16},
                "w": {"dtype": "{dtype}", "align": 16}, "g": {"dtype": "fp32", "align": 16},
                "gk": {"dtype": "fp32", "align": 16}, "do": {"dtype": "{dtype}", "align": 16},
                "dx": {"dtype": "{dtype}", "align": 16}, "dr": {"dtype": "{dtype}", "align": 16},
                "dh": {"dtype": "{dtype}", "align": 16}, "dht": {"dtype": "fp32", "align": 16},
                "dh0": {"dtype": "fp32", "align": 16}, "scale": {"float": 0.125},
                "sequences": {"dtype": "i32", "align": 16}, "H": {"constexpr": "{H}"}, "K": {"constexpr": "{K}"},
                "V": {"constexpr": "{V}"}, "BT": {"constexpr": 64}, "BK": {"constexpr": "{K}"},
            },
            "omitted": ["BV"],
        },
        "configs": [
            {"kwargs": {"BV": 16}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {"BV": 32}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BV": 16}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BV": 32}, "num_warps": 8, "num_stages": 2},
        ],
        "keys": ["H", "K", "V", "BT", "BK"],
    },
    "delta_bwd_wy": {
        "form": "chunk",
        "launch": {
            "args": {
                "k": {"dtype": "{dtype}", "align": 16}, "v": {"dtype": "{dtype}", "align": 16},
                "beta": {"dtype": "fp32", "align": 16}, "g": {"dtype": "fp32", "align": 16},
                "w": {"dtype": "{dtype}", "align": 16}, "u": {"dtype": "fp32", "align": 16},
                "X": {"dtype": "{dtype}", "align": 16}, "Y": {"dtype": "{dtype}", "align": 16},
                "xk": {"dtype": "{dtype}", "align": 16}, "dk": {"dtype": "{dtype}", "align": 16},
                "dv": {"dtype": "{dtype}", "align": 16}, "dbeta": {"dtype": "fp32", "align": 16},
                "dg": {"dtype": "fp32", "align": 16}, "chunks": {"dtype": "i32", "align": 16},
                "H": {"constexpr": "{H}"}, "K": {"constexpr": "{K}"}, "V": {"constexpr": "{V}"},
                "BT": {"constexpr": 64},
            },
            "omitted": ["BK", "BV"],
        },
        "configs": [
            {"kwargs": {"BK": 32, "BV": 32}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BK": 64, "BV": 64}, "num_warps": 8, "num_stages": 2},
            {"kwargs": {"BK": 32, "BV": 32}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {"BK": 64, "BV": 64}, "num_warps": 4, "num_stages": 2},
        ],
        "keys": ["H", "K", "V", "BT"],
    },
}
# fmt: on


@triton.autotune([triton.Config(**c) for c in KERNELS["scaled_dot_kkt"]["configs"]], KERNELS["scaled_dot_kkt"]["keys"])
@triton.jit
def scaled_dot_kkt(k, g, beta, A, chunks, H: tl.constexpr, K: tl.constexpr, BT: tl.constexpr, BK: tl.constexpr):
    """Write A_ij = beta_i exp(G_i - G_j) k_i.k_j for i > j, zero elsewhere; g is G [R, H] or None."""
    i_ch = tl.program_id(0).to(tl.int64)
    i_c, i_h = i_ch // H, i_ch % H
    first, n = load_chunk(chunks, i_c)
    o_t = tl.arange(0, BT)
    m_t = o_t < n
    row = (first + o_t) * H + i_h
    b_a = tl.zeros([BT, BT], dtype=tl.float32)
    for i_k in range(tl.cdiv(K, BK)):
        o_k = i_k * BK + tl.arange(0, BK)
        b_k = load_tile(k, row * K, o_k, m_t, o_k < K)
        b_a += tl.dot(b_k, tl.trans(b_k))
    b_a = b_a * tl.load(beta + row, mask=m_t, other=0.0)[:, None]
    if g is not None:
        b_g = tl.load(g + row, mask=m_t, other=0.0)
        b_a = b_a * token_decay(b_g, o_t, m_t, True)
    else:
        b_a = tl.where(o_t[:, None] > o_t[None, :], b_a, 0.0)
    store_tile(A, score_rows(i_c, o_t, i_h, H, BT), o_t, o_t < BT, o_t < BT, b_a)


@triton.jit
def load_block(A, i: tl.constexpr, j: tl.constexpr, stride: tl.constexpr):
    """Return the 16x16 block (i, j) of a chunk's matrix, whose rows lie `stride` apart, in fp32."""
    o = tl.arange(0, 16)
    return tl.load(A + ((i * 16 + o) * stride)[:, None] + (j * 16 + o)[None, :]).to(tl.float32)


@triton.jit
def store_block(A, i: tl.constexpr, j: tl.constexpr, stride: tl.constexpr, value):
    """Write the 16x16 block (i, j) of a chunk's matrix, whose rows lie `stride` apart."""
    o = tl.arange(0, 16)
    tl.store(A + ((i * 16 + o) * stride)[:, None] + (j * 16 + o)[None, :], value.to(A.dtype.element_ty))


@triton.jit
def invert_block(a):
    """Return (I + a)^-1 of a strictly lower 16x16 block by substitution: x_i = e_i - sum over j < i of a_ij x_j."""
    o = tl.arange(0, 16)
    x = tl.where(o[:, None] == o[None, :], 1.0, 0.0)
    for i in range(1, 16):
        here = (o == i)[:, None]
        a_i = tl.sum(tl.where(here, a, 0.0), axis=0)
        x = tl.where(here, x - tl.sum(a_i[:, None] * x, axis=0)[None, :], x)
    return x


@triton.jit
def multiply(a, b):
    """Return a b in full fp32: the inverse would amplify the error of TF32."""
    return tl.dot(a, b, input_precision="ieee")


@triton.autotune(
    [triton.Config(**c) for c in KERNELS["triangular_inverse"]["configs"]], KERNELS["triangular_inverse"]["keys"]
)
@triton.jit
def triangular_inverse(A, Ai, H: tl.constexpr, BT: tl.constexpr):
    """Write (I + A)^-1 for each chunk's strictly lower A; BT is 64 and Ai must be zero on entry.

    The blocks below the diagonal follow block row by block row: X_ij = -X_ii sum over j <= m < i of A_im X_mj.
    """
    i_ch = tl.program_id(0).to(tl.int64)
    at = score_rows(i_ch // H, 0, i_ch % H, H, BT)
    A += at
    Ai += at
    x_00 = invert_block(load_block(A, 0, 0, H * BT))
    x_11 = invert_block(load_block(A, 1, 1, H * BT))
    x_22 = invert_block(load_block(A, 2, 2, H * BT))
    x_33 = invert_block(load_block(A, 3, 3, H * BT))
    a_10 = load_block(A, 1, 0, H * BT)
    a_20 = load_block(A, 2, 0, H * BT)
    a_21 = load_block(A, 2, 1, H * BT)
    a_30 = load_block(A, 3, 0, H * BT)
    a_31 = load_block(A, 3, 1, H * BT)
    a_32 = load_block(A, 3, 2, H * BT)
    x_10 = -multiply(x_11, multiply(a_10, x_00))
    x_21 = -multiply(x_22, multiply(a_21, x_11))
    x_32 = -multiply(x_33, multiply(a_32, x_22))
    x_20 = -multiply(x_22, multiply(a_20, x_00) + multiply(a_21, x_10))
    x_31 = -multiply(x_33, multiply(a_31, x_11) + multiply(a_32, x_21))
    x_30 = -multiply(x_33, multiply(a_30, x_00) + multiply(a_31, x_10) + multiply(a_32, x_20))
    store_block(Ai, 0, 0, H * BT, x_00)
    store_block(Ai, 1, 1, H * BT, x_11)
    store_block(Ai, 2, 2, H * BT, x_22)
    store_block(Ai, 3, 3, H * BT, x_33)
    store_block(Ai, 1, 0, H * BT, x_10)
    store_block(Ai, 2, 1, H * BT, x_21)
    store_block(Ai, 3, 2, H * BT, x_32)
    store_block(Ai, 2, 0, H * BT, x_20)
    store_block(Ai, 3, 1, H * BT, x_31)
    store_block(Ai, 3, 0, H * BT, x_30)


@triton.autotune([triton.Config(**c) for c in KERNELS["apply_scores"]["configs"]], KERNELS["apply_scores"]["keys"])
@triton.jit
def apply_scores(
    A, x, s, y, chunks, H: tl.constexpr, D: tl.constexpr, BT: tl.constexpr, TRANSPOSED: tl.constexpr,
    BD: tl.constexpr,
):  # fmt: skip
    """Write BD columns of y = A (s x) of one chunk, or A^T (s x) if TRANSPOSED, for x [R, H, D]; s [R, H] or None."""
    i_ch, i_d = tl.program_id(0).to(tl.int64), tl.program_id(1)
    i_c, i_h = i_ch // H, i_ch % H
    first, n = load_chunk(chunks, i_c)
    o_t, o_d = tl.arange(0, BT), i_d * BD + tl.arange(0, BD)
    m_t, m_d = o_t < n, o_d < D
    row = (first + o_t) * H + i_h
    rows = score_rows(i_c, o_t, i_h, H, BT)
    if TRANSPOSED:
        b_a = load_tile(A, o_t, rows, m_t, m_t)
    else:
        b_a = load_tile(A, rows, o_t, m_t, m_t)
    b_x = load_tile(x, row * D, o_d, m_t, m_d)
    if s is not None:
        b_x = b_x * tl.load(s + row, mask=m_t, other=0.0)[:, None]
    store_tile(y, row * D, o_d, m_t, m_d, tl.dot(b_a, b_x.to(b_a.dtype)))


@triton.autotune([triton.Config(**c) for c in KERNELS["delta_fwd_h"]["configs"]], KERNELS["delta_fwd_h"]["keys"])
@triton.jit
def delta_fwd_h(
    b, w, u, k, v, g, gk, r, h, h0, ht, sequences, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr,
    BT: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Write the state before every chunk, in order, and each chunk's r = u + w h.

    With g, a head's decay, b is decayed to the chunk's end here; with gk, one decay a row, b and k already are.
    """
    i_nh, i_v = tl.program_id(0).to(tl.int64), tl.program_id(1)
    i_n, i_h = i_nh // H, i_nh % H
    o_t, o_k, o_v = tl.arange(0, BT), tl.arange(0, BK), i_v * BV + tl.arange(0, BV)
    m_k, m_v = o_k < K, o_v < V
    first, T, i_c = load_sequence(sequences, i_n)
    b_h = tl.zeros([BK, BV], dtype=tl.float32)
    if h0 is not None:
        b_h += load_tile(h0 + i_nh * K * V, o_k * V, o_v, m_k, m_v).to(tl.float32)
    for i_t in range(tl.cdiv(T, BT)):
        store_tile(h + ((i_c + i_t) * H + i_h) * K * V, o_k * V, o_v, m_k, m_v, b_h)
        n = tl.minimum(T - i_t * BT, BT)
        m_t = o_t < n
        row = (first + i_t * BT + o_t) * H + i_h
        end = (first + i_t * BT + n - 1) * H + i_h
        b_w = load_tile(w, row * K, o_k, m_t, m_k)
        b_r = load_tile(u, row * V, o_v, m_t, m_v) + tl.dot(b_w, b_h.to(b_w.dtype))
        store_tile(r, row * V, o_v, m_t, m_v, b_r)
        if g is not None:
            b_last = tl.load(g + end)
            b_r = b_r * decay_between(b_last, tl.load(g + row, mask=m_t, other=0.0), m_t)[:, None]
            b_h = b_h * tl.exp(b_last)
        if gk is not None:
            b_h = b_h * tl.exp(tl.load(gk + end * K + o_k, mask=m_k, other=0.0))[:, None]
        b_b = load_tile(b, o_k, row * K, m_k, m_t)
        b_h += tl.dot(b_b, b_r.to(b_b.dtype))
        if k is not None:
            b_h += tl.dot(load_tile(k, o_k, row * K, m_k, m_t), load_tile(v, row * V, o_v, m_t, m_v))
    store_tile(ht + i_nh * K * V, o_k * V, o_v, m_k, m_v, b_h)


@triton.autotune([triton.Config(**c) for c in KERNELS["delta_bwd_dh"]["configs"]], KERNELS["delta_bwd_dh"]["keys"])
@triton.jit
def delta_bwd_dh(
    q, b, w, g, gk, do, dx, dr, dh, dht, dh0, scale, sequences, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr,
    BT: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Write the gradient dh of the state after every chunk, from the last to the first, that of h0, and that of r.

    dx is the part of dr that comes through the chunk's own output. With g, a head's decay, q and b are decayed here;
    with gk, one decay a row, they already are.
    """
    i_nh, i_v = tl.program_id(0).to(tl.int64), tl.program_id(1)
    i_n, i_h = i_nh // H, i_nh % H
    o_t, o_k, o_v = tl.arange(0, BT), tl.arange(0, BK), i_v * BV + tl.arange(0, BV)
    m_k, m_v = o_k < K, o_v < V
    first, T, i_c = load_sequence(sequences, i_n)
    b_dh = load_tile(dht + i_nh * K * V, o_k * V, o_v, m_k, m_v)
    NT = tl.cdiv(T, BT)
    for i in range(NT):
        i_t = NT - 1 - i
        store_tile(dh + ((i_c + i_t) * H + i_h) * K * V, o_k * V, o_v, m_k, m_v, b_dh)
        n = tl.minimum(T - i_t * BT, BT)
        m_t = o_t < n
        row = (first + i_t * BT + o_t) * H + i_h
        end = (first + i_t * BT + n - 1) * H + i_h
        b_b = load_tile(b, row * K, o_k, m_t, m_k)
        b_dr = tl.dot(b_b, b_dh.to(b_b.dtype))
        b_q = load_tile(q, o_k, row * K, m_k, m_t)
        if g is not None:
            b_g = tl.load(g + row, mask=m_t, other=0.0)
            b_last = tl.load(g + end)
            b_dr = b_dr * decay_between(b_last, b_g, m_t)[:, None]
            b_dh = b_dh * tl.exp(b_last)
            b_q = (b_q * tl.exp(b_g)[None, :]).to(b_q.dtype)
        if gk is not None:
            b_dh = b_dh * tl.exp(tl.load(gk + end * K + o_k, mask=m_k, other=0.0))[:, None]
        b_dr += load_tile(dx, row * V, o_v, m_t, m_v).to(tl.float32)
        store_tile(dr, row * V, o_v, m_t, m_v, b_dr)
        b_dh += tl.dot(b_q, load_tile(do, row * V, o_v, m_t, m_v)) * scale
        b_w = load_tile(w, o_k, row * K, m_k, m_t)
        b_dh += tl.dot(b_w, b_dr.to(b_w.dtype))
    store_tile(dh0 + i_nh * K * V, o_k * V, o_v, m_k, m_v, b_dh)


@triton.autotune([triton.Config(**c) for c in KERNELS["delta_bwd_wy"]["configs"]], KERNELS["delta_bwd_wy"]["keys"])
@triton.jit
def delta_bwd_wy(
    k, v, beta, g, w, u, X, Y, xk, dk, dv, dbeta, dg, chunks, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr,
    BT: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Write one chunk's dv, dbeta and dk, to which the part xk adds, and the part of dg that comes through w and A."""
    i_ch = tl.program_id(0).to(tl.int64)
    i_c, i_h = i_ch // H, i_ch % H
    first, n = load_chunk(chunks, i_c)
    o_t = tl.arange(0, BT)
    m_t = o_t < n
    row = (first + o_t) * H + i_h
    b_beta = tl.load(beta + row, mask=m_t, other=0.0)
    b_decay = tl.where(m_t, 1.0, 0.0)
    b_between = tl.where(o_t[:, None] > o_t[None, :], 1.0, 0.0)
    if g is not None:
        b_g = tl.load(g + row, mask=m_t, other=0.0)
        b_decay = b_decay * tl.exp(b_g)
        b_between = token_decay(b_g, o_t, m_t, True)
    b_da = tl.zeros([BT, BT], dtype=tl.float32)
    b_kk = tl.zeros([BT, BT], dtype=tl.float32)
    b_dbeta = tl.zeros([BT], dtype=tl.float32)
    b_late = tl.zeros([BT], dtype=tl.float32)
    for i_v in range(tl.cdiv(V, BV)):
        o_v = i_v * BV + tl.arange(0, BV)
        m_v = o_v < V
        b_y = load_tile(Y, row * V, o_v, m_t, m_v)
        b_u = load_tile(u, o_v, row * V, m_v, m_t)
        b_v = load_tile(v, row * V, o_v, m_t, m_v)
        b_da -= tl.dot(b_y, b_u.to(b_y.dtype))
        b_dbeta += tl.sum(b_y.to(tl.float32) * b_v.to(tl.float32), axis=1)
        store_tile(dv, row * V, o_v, m_t, m_v, b_y * b_beta[:, None])
    for i_k in range(tl.cdiv(K, BK)):
        o_k = i_k * BK + tl.arange(0, BK)
        m_k = o_k < K
        b_x = load_tile(X, row * K, o_k, m_t, m_k)
        b_k = load_tile(k, row * K, o_k, m_t, m_k)
        b_da += tl.dot(b_x, load_tile(w, o_k, row * K, m_k, m_t))
        b_kk += tl.dot(b_k, tl.trans(b_k))
        b_late += tl.sum(b_x.to(tl.float32) * b_k.to(tl.float32), axis=1)
    b_late = b_late * b_decay
    b_dbeta += b_late
    # The gradient of the scores without beta, by pairs.
    b_da = b_da * b_between
    b_dbeta += tl.sum(b_da * b_kk, axis=1)
    tl.store(dbeta + row, b_dbeta, mask=m_t)
    b_e = b_da * b_beta[:, None]
    b_d = (b_e + tl.trans(b_e)).to(k.dtype.element_ty)
    for i_k in range(tl.cdiv(K, BK)):
        o_k = i_k * BK + tl.arange(0, BK)
        m_k = o_k < K
        b_x = load_tile(X, row * K, o_k, m_t, m_k)
        b_k = load_tile(k, row * K, o_k, m_t, m_k)
        b_dk = load_tile(xk, row * K, o_k, m_t, m_k) + b_x * (b_beta * b_decay)[:, None]
        store_tile(dk, row * K, o_k, m_t, m_k, b_dk + tl.dot(b_d, b_k))
    if g is not None:
        # Through w from before the chunk to its tokens; through A from each j < t to each i >= t.
        is_late = o_t[:, None] >= o_t[None, :]
        b_dg = tl.sum(tl.where(is_late, (b_late * b_beta)[:, None], 0.0), axis=0)
        b_from = tl.cumsum(b_e * b_kk, axis=0, reverse=True)
        b_dg += tl.sum(tl.where(o_t[:, None] > o_t[None, :], b_from, 0.0), axis=1)
        tl.store(dg + row, b_dg, mask=m_t)


def inverse(A, chunks, dtype, BT=64):
    """Return (I + A)^-1 for strictly lower A [NC, BT, H, BT]."""
    import torch

    Ai = torch.zeros_like(A, dtype=dtype)
    H = A.shape[2]
    triangular_inverse[(len(chunks) * H,)](A, Ai, H=H, BT=BT)
    return Ai


def applied(A, x, s, chunks, dtype=None, is_transposed=False, BT=64):
    """Return A (s x) or A^T (s x) for x [B, T, H, D]."""
    import torch

    y = torch.empty_like(x, dtype=dtype)
    H, D = x.shape[2:]
    apply_scores[lambda meta: (len(chunks) * H, triton.cdiv(D, meta["BD"]))](
        A, x, s, y, chunks, H=H, D=D, BT=BT, TRANSPOSED=int(is_transposed)
    )
    return y


def states(b, w, u, k, v, g, gk, h0, sequences, chunks, BT=64):
    """Return (h [NC, H, K, V], r [B, T, H, V], ht) of `delta_fwd_h`."""
    import torch

    H, K, V, NC = w.shape[2], w.shape[3], u.shape[3], len(chunks)
    h, r = w.new_empty(NC, H, K, V), torch.empty_like(u, dtype=w.dtype)
    ht = w.new_empty(len(sequences), H, K, V, dtype=torch.float32)
    delta_fwd_h[lambda meta: (len(sequences) * H, triton.cdiv(V, meta["BV"]))](
        b, w, u, k, v, g, gk, r, h, h0, ht, sequences, H=H, K=K, V=V, BT=BT, BK=triton.next_power_of_2(K)
    )
    return h, r, ht


def states_backward(q, b, w, g, gk, do, dx, dht, scale, sequences, chunks, BT=64):
    """Return (dh [NC, H, K, V], dr [B, T, H, V], dh0) of `delta_bwd_dh`."""
    import torch

    H, K, V, NC = w.shape[2], w.shape[3], do.shape[3], len(chunks)
    dh, dr, dh0 = w.new_empty(NC, H, K, V), torch.empty_like(dx), torch.empty_like(dht)
    delta_bwd_dh[lambda meta: (len(sequences) * H, triton.cdiv(V, meta["BV"]))](
        q, b, w, g, gk, do, dx, dr, dh, dht, dh0, scale, sequences,
        H=H, K=K, V=V, BT=BT, BK=triton.next_power_of_2(K),
    )  # fmt: skip
    return dh, dr, dh0


def wy(k, v, beta, G, chunks, BT=64):
    """Return ((I + A)^-1, w, u) of the delta rule; G [B, T, H] or None."""
    import torch

    H, K = k.shape[2:]
    A = score_matrix(k, chunks, BT, torch.float32)
    scaled_dot_kkt[(len(chunks) * H,)](k, G, beta, A, chunks, H=H, K=K, BT=BT)
    Ai = inverse(A, chunks, k.dtype)
    w = applied(Ai, k, -beta if G is None else -beta * G.exp(), chunks)
    # Each rounding of the values would reach all later tokens.
    return Ai, w, applied(Ai, v, beta, chunks, torch.float32)


def forward(q, k, v, g, beta, h0, scale, sequences, chunks, BT=64):
    """Return ((o, ht), tensors to keep) for q, k [B, T, H, K], v [B, T, H, V], beta and g [B, T, H]; g may be None."""
    import torch

    H, K, V, NC = q.shape[2], q.shape[3], v.shape[3], len(chunks)
    G = None if g is None else local_cumsum(g.flatten(0, 1), chunks).view(g.shape)
    Ai, w, u = wy(k, v, beta, G, chunks)
    h, r, ht = states(k, w, u, None, None, G, None, h0, sequences, chunks)
    o = torch.empty_like(v)
    chunk_fwd_o[lambda meta: (NC * H, triton.cdiv(V, meta["BV"]))](
        q, k, r, G, h, o, scale, chunks, H=H, K=K, V=V, BT=BT
    )
    return (o, ht), (q, k, v, G, beta, Ai, w, u, h, r)


def backward(kept, do, dht, scale, sequences, chunks, BT=64):
    """Return the gradients of q, k, v, g, beta and h0."""
    import torch

    q, k, v, G, beta, Ai, w, u, h, r = kept
    H, K, V, NC, R = q.shape[2], q.shape[3], v.shape[3], len(chunks), q.shape[0] * q.shape[1]
    dx = torch.empty_like(v)
    chunk_bwd_dv[lambda meta: (NC * H, triton.cdiv(V, meta["BV"]))](
        q, k, G, do, None, dx, scale, chunks, H=H, K=K, V=V, BT=BT
    )
    dh, dr, dh0 = states_backward(q, k, w, G, None, do, dx, dht, scale, sequences, chunks)
    dq, xk, dw = torch.empty_like(q), torch.empty_like(k), torch.empty_like(w)
    BK = 64
    dg = None if G is None else G.new_empty(triton.cdiv(K, BK), *q.shape[:3])
    chunk_bwd_dqkg[(NC * H, triton.cdiv(K, BK))](
        q, k, r, G, h, do, dh, dr, dq, xk, dw, dg, scale, chunks, R, H=H, K=K, V=V, BT=BT, BK=BK
    )
    # That kernel's dw is the gradient of -w.
    X, Y = (applied(Ai, x, None, chunks, is_transposed=True) for x in (dw, dr))
    dk, dv, dbeta = torch.empty_like(k), torch.empty_like(v), torch.empty_like(beta)
    dgw = None if G is None else torch.empty_like(G)
    delta_bwd_wy[(NC * H,)](
        k, v, beta, G, w, u, X, Y, xk, dk, dv, dbeta, dgw, chunks, H=H, K=K, V=V, BT=BT
    )
    return dq, dk, dv, None if dg is None else dg.sum(0) + dgw, dbeta, dh0


def attention(q, k, v, g, beta, h0, scale, sequences, chunks):
    """Return (o, ht) of the (gated) delta rule in chunks of 64 tokens, with gradients."""
    options = {"scale": scale, "sequences": sequences, "chunks": chunks}
    return differentiable(forward, backward)(options, q, k, v, g, beta, h0)


def recurrence(q, k, v, g, beta, h0, scale, sequences):
    """Return (o, ht) of the (gated) delta rule token by token, with gradients: its generalisation's a, b and values."""
    strength = beta[..., None]
    # In fp32: a rounded product would be another key than the one that is read.
    b, values, a, gk = -(k * strength), v * strength, k, None
    if g is not None:
        a, gk = k * g.exp()[..., None], g[..., None].expand(k.shape).contiguous()
    o, ht = dplr_recurrence(q, k, values, a, b, gk, h0, scale, sequences)
    return o.to(v.dtype), ht
