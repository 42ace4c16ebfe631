"""Gated linear attention and the generalised delta rule token by token: forward and backward.

    h_t = Diag(exp(g_t)) h_{t-1} + b_t (h_{t-1}^T a_t)^T + k_t v_t^T        o_t = scale h_t^T q_t

(Yang et al. 2024, arXiv:2312.06635, without a and b; Peng et al. 2025, arXiv:2503.14456, with them.) A bonus u [H, K]
reads the state before its decay instead: o_t = scale (h_{t-1} + Diag(u) k_t v_t^T)^T q_t (Peng et al. 2024,
arXiv:2404.05892). Layouts are those of `_tiles`; g [R, H] or gk [R, H, K] is the log decay of each token, fp32. A
program keeps BV columns of a head's state; gradients that sum over the columns have one part a program, [NV, R, H, K].

Backward needs no division by a decay. One kernel walks forward with the state h, one walks back with its gradient dh.
The decay of token t lies on every path from a key before t to a query from t on: its gradient is the sum of q dq - k dk
over the tokens from t on, as every path between two of these tokens is in both terms. These sums are taken in float64,
and without the paths from a token to itself, which would cancel.
"""

import triton
import triton.language as tl

from ._host import differentiable, reversed_sum
from ._tiles import load_sequence, load_tile, store_tile

# fmt: off
KERNELS = {
    "fused_recurrent_fwd": {
        "form": "fused_recurrent",
        "launch": {
            "args": {
                "q": {"dtype": "{dtype}", "align": 16}, "k": {"dtype": "{dtype}", "align": 16},
                "v": {"dtype": "{dtype}", "align": 16}, "g": {"dtype": "fp32", "align": 16},
                "gk": {"dtype": "fp32", "align": 16}, "u": {"dtype": "fp32", "align": 16},
                "o": {"dtype": "{dtype}", "align": 16}, "h0": {"dtype": "fp32", "align": 16},
                "ht": {"dtype": "fp32", "align": 16}, "scale": {"float": 0.125},
                "sequences": {"dtype": "i32", "align": 16}, "H": {"constexpr": "{H}"}, "K": {"constexpr": "{K}"},
                "V": {"constexpr": "{V}"}, "BK": {"constexpr": "{K}"},
            },
            "omitted": ["BV"],
        },
        "configs": [
            {"kwargs": {"BV": 16}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {"BV": 8}, "num_warps": 1, "num_stages": 2},
            {"kwargs": {"BV": 32}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BV": 32}, "num_warps": 8, "num_stages": 2},
        ],
        "keys": ["H", "K", "V"],
    },
    "fused_recurrent_bwd_dq": {
        "form": "fused_recurrent",
        "launch": {
            "args": {
                "k": {"dtype": "{dtype}", "align": 16}, "v": {"dtype": "{dtype}", "align": 16},
                "g": {"dtype": "fp32", "align": 16}, "gk": {"dtype": "fp32", "align": 16},
                "u": {"dtype": "fp32", "align": 16}, "do": {"dtype": "{dtype}", "align": 16},
                "dq": {"dtype": "fp32", "align": 16}, "h0": {"dtype": "fp32", "align": 16},
                "hd": {"dtype": "fp32", "align": 16}, "scale": {"float": 0.125}, "sequences": {"dtype": "i32", "align": 16}, "R": {"int": "{T}"}, "H": {"constexpr": "{H}"},
                "K": {"constexpr": "{K}"}, "V": {"constexpr": "{V}"}, "BK": {"constexpr": "{K}"},
                "BV": {"constexpr": 16},
            },
            "omitted": [],
        },
        "configs": [
            {"kwargs": {}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {}, "num_warps": 1, "num_stages": 2},
            {"kwargs": {}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {}, "num_warps": 8, "num_stages": 2},
        ],
        "keys": ["H", "K", "V"],
    },
    "fused_recurrent_bwd_dkv": {
        "form": "fused_recurrent",
        "launch": {
            "args": {
                "q": {"dtype": "{dtype}", "align": 16}, "k": {"dtype": "{dtype}", "align": 16},
                "v": {"dtype": "{dtype}", "align": 16}, "g": {"dtype": "fp32", "align": 16},
                "gk": {"dtype": "fp32", "align": 16}, "u": {"dtype": "fp32", "align": 16},
                "do": {"dtype": "{dtype}", "align": 16}, "dk": {"dtype": "fp32", "align": 16},
                "dv": {"dtype": "{dtype}", "align": 16}, "dht": {"dtype": "fp32", "align": 16},
                "dh0": {"dtype": "fp32", "align": 16}, "scale": {"float": 0.125},
                "sequences": {"dtype": "i32", "align": 16}, "R": {"int": "{T}"}, "H": {"constexpr": "{H}"},
                "K": {"constexpr": "{K}"}, "V": {"constexpr": "{V}"}, "BK": {"constexpr": "{K}"},
                "BV": {"constexpr": 16},
            },
            "omitted": [],
        },
        "configs": [
            {"kwargs": {}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {}, "num_warps": 1, "num_stages": 2},
            {"kwargs": {}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {}, "num_warps": 8, "num_stages": 2},
        ],
        "keys": ["H", "K", "V"],
    },
    "dplr_recurrent_fwd": {
        "form": "fused_recurrent",
        "launch": {
            "args": {
                "q": {"dtype": "{dtype}", "align": 16}, "k": {"dtype": "{dtype}", "align": 16},
                "v": {"dtype": "{dtype}", "align": 16}, "a": {"dtype": "{dtype}", "align": 16},
                "b": {"dtype": "{dtype}", "align": 16}, "gk": {"dtype": "fp32", "align": 16},
                "o": {"dtype": "{dtype}", "align": 16}, "u": {"dtype": "fp32", "align": 16},
                "h0": {"dtype": "fp32", "align": 16}, "ht": {"dtype": "fp32", "align": 16}, "scale": {"float": 0.125},
                "sequences": {"dtype": "i32", "align": 16}, "H": {"constexpr": "{H}"}, "K": {"constexpr": "{K}"},
                "V": {"constexpr": "{V}"}, "BK": {"constexpr": "{K}"},
            },
            "omitted": ["BV"],
        },
        "configs": [
            {"kwargs": {"BV": 16}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {"BV": 8}, "num_warps": 1, "num_stages": 2},
            {"kwargs": {"BV": 32}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BV": 32}, "num_warps": 8, "num_stages": 2},
        ],
        "keys": ["H", "K", "V"],
    },
    "dplr_recurrent_bwd_dh": {
        "form": "fused_recurrent",
        "launch": {
            "args": {
                "q": {"dtype": "{dtype}", "align": 16}, "k": {"dtype": "{dtype}", "align": 16},
                "v": {"dtype": "{dtype}", "align": 16}, "a": {"dtype": "{dtype}", "align": 16},
                "b": {"dtype": "{dtype}", "align": 16}, "gk": {"dtype": "fp32", "align": 16},
                "u": {"dtype": "fp32", "align": 16}, "do": {"dtype": "{dtype}", "align": 16},
                "dk": {"dtype": "fp32", "align": 16}, "db": {"dtype": "fp32", "align": 16},
                "dv": {"dtype": "{dtype}", "align": 16}, "du": {"dtype": "fp32", "align": 16},
                "dht": {"dtype": "fp32", "align": 16}, "dh0": {"dtype": "fp32", "align": 16}, "scale": {"float": 0.125},
                "sequences": {"dtype": "i32", "align": 16}, "R": {"int": "{T}"}, "H": {"constexpr": "{H}"},
                "K": {"constexpr": "{K}"}, "V": {"constexpr": "{V}"}, "BK": {"constexpr": "{K}"},
                "BV": {"constexpr": 16},
            },
            "omitted": [],
        },
        "configs": [
            {"kwargs": {}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {}, "num_warps": 1, "num_stages": 2},
            {"kwargs": {}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {}, "num_warps": 8, "num_stages": 2},
        ],
        "keys": ["H", "K", "V"],
    },
    "dplr_recurrent_bwd_h": {
        "form": "fused_recurrent",
        "launch": {
            "args": {
                "k": {"dtype": "{dtype}", "align": 16}, "v": {"dtype": "{dtype}", "align": 16},
                "b": {"dtype": "{dtype}", "align": 16}, "gk": {"dtype": "fp32", "align": 16},
                "u": {"dtype": "fp32", "align": 16}, "do": {"dtype": "{dtype}", "align": 16},
                "du": {"dtype": "fp32", "align": 16}, "dq": {"dtype": "fp32", "align": 16},
                "da": {"dtype": "fp32", "align": 16}, "h0": {"dtype": "fp32", "align": 16},
                "hd": {"dtype": "fp32", "align": 16}, "scale": {"float": 0.125},
                "sequences": {"dtype": "i32", "align": 16}, "R": {"int": "{T}"}, "H": {"constexpr": "{H}"},
                "K": {"constexpr": "{K}"}, "V": {"constexpr": "{V}"}, "BK": {"constexpr": "{K}"},
                "BV": {"constexpr": 16},
            },
            "omitted": [],
        },
        "configs": [
            {"kwargs": {}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {}, "num_warps": 1, "num_stages": 2},
            {"kwargs": {}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {}, "num_warps": 8, "num_stages": 2},
        ],
        "keys": ["H", "K", "V"],
    },
}
# fmt: on


@triton.jit
def load_row(x, at, mask):
    """Return a vector in fp32; masked elements are zero."""
    return tl.load(x + at, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def load_decay(g, gk, row, o_k, m_k, K: tl.constexpr):
    """Return the decay of a token for each row of the state."""
    b_d = tl.where(m_k, 1.0, 1.0)
    if g is not None:
        b_d = b_d * tl.exp(tl.load(g + row))
    if gk is not None:
        b_d = b_d * tl.exp(load_row(gk, row * K + o_k, m_k))
    return b_d


@triton.autotune(
    [triton.Config(**c) for c in KERNELS["fused_recurrent_fwd"]["configs"]], KERNELS["fused_recurrent_fwd"]["keys"]
)
@triton.jit
def fused_recurrent_fwd(
    q, k, v, g, gk, u, o, h0, ht, scale, sequences, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr,
    BK: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Write the outputs of gated linear attention and the last state."""
    i_nh, i_v = tl.program_id(0).to(tl.int64), tl.program_id(1)
    i_h = i_nh % H
    o_k, o_v = tl.arange(0, BK), i_v * BV + tl.arange(0, BV)
    m_k, m_v = o_k < K, o_v < V
    first, T, _ = load_sequence(sequences, i_nh // H)
    b_h = tl.zeros([BK, BV], dtype=tl.float32)
    if h0 is not None:
        b_h += load_tile(h0 + i_nh * K * V, o_k * V, o_v, m_k, m_v).to(tl.float32)
    for t in range(T):
        row = (first + t) * H + i_h
        b_q = load_row(q, row * K + o_k, m_k) * scale
        b_k = load_row(k, row * K + o_k, m_k)
        b_v = load_row(v, row * V + o_v, m_v)
        b_kv = b_k[:, None] * b_v[None, :]
        b_decayed = b_h * load_decay(g, gk, row, o_k, m_k, K)[:, None]
        if u is not None:
            b_u = load_row(u, i_h * K + o_k, m_k)
            b_o = tl.sum((b_h + b_u[:, None] * b_kv) * b_q[:, None], axis=0)
            b_h = b_decayed + b_kv
        else:
            b_h = b_decayed + b_kv
            b_o = tl.sum(b_h * b_q[:, None], axis=0)
        tl.store(o + row * V + o_v, b_o.to(o.dtype.element_ty), mask=m_v)
    store_tile(ht + i_nh * K * V, o_k * V, o_v, m_k, m_v, b_h)


@triton.autotune(
    [triton.Config(**c) for c in KERNELS["fused_recurrent_bwd_dq"]["configs"]],
    KERNELS["fused_recurrent_bwd_dq"]["keys"],
)
@triton.jit
def fused_recurrent_bwd_dq(
    k, v, g, gk, u, do, dq, h0, hd, scale, sequences, R, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr,
    BK: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Write BV columns' part of dq [NV, R, H, K] without that of a token's own key, walking forward with the state.

    Also hd [N, H, K, V], the last state without its last token.
    """
    i_nh, i_v = tl.program_id(0).to(tl.int64), tl.program_id(1)
    i_h = i_nh % H
    o_k, o_v = tl.arange(0, BK), i_v * BV + tl.arange(0, BV)
    m_k, m_v = o_k < K, o_v < V
    first, T, _ = load_sequence(sequences, i_nh // H)
    dq += i_v.to(tl.int64) * R * H * K
    b_h = tl.zeros([BK, BV], dtype=tl.float32)
    if h0 is not None:
        b_h += load_tile(h0 + i_nh * K * V, o_k * V, o_v, m_k, m_v).to(tl.float32)
    for t in range(T):
        row = (first + t) * H + i_h
        b_k = load_row(k, row * K + o_k, m_k)
        b_v = load_row(v, row * V + o_v, m_v)
        b_do = load_row(do, row * V + o_v, m_v) * scale
        b_decayed = b_h * load_decay(g, gk, row, o_k, m_k, K)[:, None]
        if u is not None:
            b_dq = tl.sum(b_h * b_do[None, :], axis=1)
        else:
            b_dq = tl.sum(b_decayed * b_do[None, :], axis=1)
        if t == T - 1:
            store_tile(hd + i_nh * K * V, o_k * V, o_v, m_k, m_v, b_decayed)
        b_h = b_decayed + b_k[:, None] * b_v[None, :]
        tl.store(dq + row * K + o_k, b_dq, mask=m_k)


@triton.autotune(
    [triton.Config(**c) for c in KERNELS["fused_recurrent_bwd_dkv"]["configs"]],
    KERNELS["fused_recurrent_bwd_dkv"]["keys"],
)
@triton.jit
def fused_recurrent_bwd_dkv(
    q, k, v, g, gk, u, do, dk, dv, dht, dh0, scale, sequences, R, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr,
    BK: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Write BV columns of dv and dh0, walking back with the state's gradient.

    Also their part of dk [NV, R, H, K] without that of a token's own query.
    """
    i_nh, i_v = tl.program_id(0).to(tl.int64), tl.program_id(1)
    i_h = i_nh % H
    o_k, o_v = tl.arange(0, BK), i_v * BV + tl.arange(0, BV)
    m_k, m_v = o_k < K, o_v < V
    first, T, _ = load_sequence(sequences, i_nh // H)
    dk += i_v.to(tl.int64) * R * H * K
    b_dh = load_tile(dht + i_nh * K * V, o_k * V, o_v, m_k, m_v)
    for i in range(T):
        row = (first + T - 1 - i) * H + i_h
        b_q = load_row(q, row * K + o_k, m_k) * scale
        b_k = load_row(k, row * K + o_k, m_k)
        b_v = load_row(v, row * V + o_v, m_v)
        b_do = load_row(do, row * V + o_v, m_v)
        if u is not None:
            b_u = load_row(u, i_h * K + o_k, m_k)
        else:
            b_u = tl.where(m_k, 1.0, 0.0)
        b_dk = tl.sum(b_dh * b_v[None, :], axis=1)
        b_dv = tl.sum(b_dh * b_k[:, None], axis=0) + b_do * tl.sum(b_q * b_u * b_k, axis=0)
        b_qdo = b_q[:, None] * b_do[None, :]
        b_d = load_decay(g, gk, row, o_k, m_k, K)[:, None]
        if u is not None:
            b_dh = b_dh * b_d + b_qdo
        else:
            b_dh = (b_dh + b_qdo) * b_d
        tl.store(dk + row * K + o_k, b_dk, mask=m_k)
        tl.store(dv + row * V + o_v, b_dv.to(dv.dtype.element_ty), mask=m_v)
    store_tile(dh0 + i_nh * K * V, o_k * V, o_v, m_k, m_v, b_dh)


@triton.autotune(
    [triton.Config(**c) for c in KERNELS["dplr_recurrent_fwd"]["configs"]], KERNELS["dplr_recurrent_fwd"]["keys"]
)
@triton.jit
def dplr_recurrent_fwd(
    q, k, v, a, b, gk, o, u, h0, ht, scale, sequences, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr,
    BK: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Write the outputs of the generalised delta rule, u_t = h_{t-1}^T a_t [R, H, V], and the last state."""
    i_nh, i_v = tl.program_id(0).to(tl.int64), tl.program_id(1)
    i_h = i_nh % H
    o_k, o_v = tl.arange(0, BK), i_v * BV + tl.arange(0, BV)
    m_k, m_v = o_k < K, o_v < V
    first, T, _ = load_sequence(sequences, i_nh // H)
    b_h = tl.zeros([BK, BV], dtype=tl.float32)
    if h0 is not None:
        b_h += load_tile(h0 + i_nh * K * V, o_k * V, o_v, m_k, m_v).to(tl.float32)
    for t in range(T):
        row = (first + t) * H + i_h
        b_q = load_row(q, row * K + o_k, m_k) * scale
        b_k = load_row(k, row * K + o_k, m_k)
        b_a = load_row(a, row * K + o_k, m_k)
        b_b = load_row(b, row * K + o_k, m_k)
        b_v = load_row(v, row * V + o_v, m_v)
        b_u = tl.sum(b_h * b_a[:, None], axis=0)
        b_h = b_h * load_decay(None, gk, row, o_k, m_k, K)[:, None]
        b_h += b_b[:, None] * b_u[None, :] + b_k[:, None] * b_v[None, :]
        tl.store(u + row * V + o_v, b_u, mask=m_v)
        tl.store(o + row * V + o_v, tl.sum(b_h * b_q[:, None], axis=0).to(o.dtype.element_ty), mask=m_v)
    store_tile(ht + i_nh * K * V, o_k * V, o_v, m_k, m_v, b_h)


@triton.autotune(
    [triton.Config(**c) for c in KERNELS["dplr_recurrent_bwd_dh"]["configs"]], KERNELS["dplr_recurrent_bwd_dh"]["keys"]
)
@triton.jit
def dplr_recurrent_bwd_dh(
    q, k, v, a, b, gk, u, do, dk, db, dv, du, dht, dh0, scale, sequences, R, H: tl.constexpr, K: tl.constexpr,
    V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Write BV columns of dv, du and dh0, walking back with the state's gradient.

    Also their parts of dk and db [NV, R, H, K] without those of a token's own query.
    """
    i_nh, i_v = tl.program_id(0).to(tl.int64), tl.program_id(1)
    i_h = i_nh % H
    o_k, o_v = tl.arange(0, BK), i_v * BV + tl.arange(0, BV)
    m_k, m_v = o_k < K, o_v < V
    first, T, _ = load_sequence(sequences, i_nh // H)
    part = i_v.to(tl.int64) * R * H * K
    b_dh = load_tile(dht + i_nh * K * V, o_k * V, o_v, m_k, m_v)
    for i in range(T):
        row = (first + T - 1 - i) * H + i_h
        b_q = load_row(q, row * K + o_k, m_k) * scale
        b_k = load_row(k, row * K + o_k, m_k)
        b_a = load_row(a, row * K + o_k, m_k)
        b_b = load_row(b, row * K + o_k, m_k)
        b_v = load_row(v, row * V + o_v, m_v)
        b_u = load_row(u, row * V + o_v, m_v)
        tl.store(dk + part + row * K + o_k, tl.sum(b_dh * b_v[None, :], axis=1), mask=m_k)
        tl.store(db + part + row * K + o_k, tl.sum(b_dh * b_u[None, :], axis=1), mask=m_k)
        b_dh += b_q[:, None] * load_row(do, row * V + o_v, m_v)[None, :]
        b_du = tl.sum(b_dh * b_b[:, None], axis=0)
        b_dv = tl.sum(b_dh * b_k[:, None], axis=0)
        tl.store(dv + row * V + o_v, b_dv.to(dv.dtype.element_ty), mask=m_v)
        tl.store(du + row * V + o_v, b_du, mask=m_v)
        b_dh = b_dh * load_decay(None, gk, row, o_k, m_k, K)[:, None] + b_a[:, None] * b_du[None, :]
    store_tile(dh0 + i_nh * K * V, o_k * V, o_v, m_k, m_v, b_dh)


@triton.autotune(
    [triton.Config(**c) for c in KERNELS["dplr_recurrent_bwd_h"]["configs"]], KERNELS["dplr_recurrent_bwd_h"]["keys"]
)
@triton.jit
def dplr_recurrent_bwd_h(
    k, v, b, gk, u, do, du, dq, da, h0, hd, scale, sequences, R, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr,
    BK: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Write BV columns' parts of da, and of dq without those of a token's own k and b, walking forward with the state.

    Also hd [N, H, K, V], the last state without its last token.
    """
    i_nh, i_v = tl.program_id(0).to(tl.int64), tl.program_id(1)
    i_h = i_nh % H
    o_k, o_v = tl.arange(0, BK), i_v * BV + tl.arange(0, BV)
    m_k, m_v = o_k < K, o_v < V
    first, T, _ = load_sequence(sequences, i_nh // H)
    part = i_v.to(tl.int64) * R * H * K
    b_h = tl.zeros([BK, BV], dtype=tl.float32)
    if h0 is not None:
        b_h += load_tile(h0 + i_nh * K * V, o_k * V, o_v, m_k, m_v).to(tl.float32)
    for t in range(T):
        row = (first + t) * H + i_h
        b_k = load_row(k, row * K + o_k, m_k)
        b_b = load_row(b, row * K + o_k, m_k)
        b_v = load_row(v, row * V + o_v, m_v)
        b_u = load_row(u, row * V + o_v, m_v)
        b_du = load_row(du, row * V + o_v, m_v)
        tl.store(da + part + row * K + o_k, tl.sum(b_h * b_du[None, :], axis=1), mask=m_k)
        b_h = b_h * load_decay(None, gk, row, o_k, m_k, K)[:, None]
        b_do = load_row(do, row * V + o_v, m_v) * scale
        tl.store(dq + part + row * K + o_k, tl.sum(b_h * b_do[None, :], axis=1), mask=m_k)
        if t == T - 1:
            store_tile(hd + i_nh * K * V, o_k * V, o_v, m_k, m_v, b_h)
        b_h += b_b[:, None] * b_u[None, :] + b_k[:, None] * b_v[None, :]


# The columns of the state that a program of a backward kernel keeps.
COLUMNS = 16


def forward(q, k, v, g, gk, u, h0, scale, sequences):
    """Return ((o, ht), tensors to keep) for q, k [B, T, H, K], v [B, T, H, V], g [B, T, H] or gk [B, T, H, K]."""
    import torch

    H, K, V, N = q.shape[2], q.shape[3], v.shape[3], len(sequences)
    o, ht = torch.empty_like(v), q.new_empty(N, H, K, V, dtype=torch.float32)
    fused_recurrent_fwd[lambda meta: (N * H, triton.cdiv(V, meta["BV"]))](
        q, k, v, g, gk, u, o, h0, ht, scale, sequences, H=H, K=K, V=V, BK=triton.next_power_of_2(K)
    )
    return (o, ht), (q, k, v, g, gk, u, h0)


def backward(kept, do, dht, scale, sequences):
    """Return the gradients of q, k, v, g, gk, u and h0."""
    import torch

    q, k, v, g, gk, u, h0 = kept
    B, T, H, K, V, N = *q.shape, v.shape[3], len(sequences)
    sizes = {"H": H, "K": K, "V": V, "BK": triton.next_power_of_2(K), "BV": COLUMNS}
    NV = triton.cdiv(V, COLUMNS)
    dq, dk = (q.new_empty(NV, B, T, H, K, dtype=torch.float32) for _ in range(2))
    dv, dh0, hd = torch.empty_like(v), torch.empty_like(dht), torch.empty_like(dht)
    fused_recurrent_bwd_dq[N * H, NV](k, v, g, gk, u, do, dq, h0, hd, scale, sequences, B * T, **sizes)
    fused_recurrent_bwd_dkv[N * H, NV](q, k, v, g, gk, u, do, dk, dv, dht, dh0, scale, sequences, B * T, **sizes)
    dq, dk = dq.sum(0), dk.sum(0)
    dg = dgk = du = None
    if gk is not None:
        ends = q.double() * dq, k.double() * dk, hd.double() * dht
        dgk = gate_gradient(*ends, u is not None, sequences).to(gk.dtype)
    elif g is not None:
        ends = q.double() * dq, k.double() * dk, hd.double() * dht
        dg = gate_gradient(*ends, u is not None, sequences, (-1,)).to(g.dtype)
    # A token's own key and query, added last: they are no part of the gates' gradients, where they would cancel.
    own = scale * (do.float() * v.float()).sum(-1, keepdim=True)
    own_k, own_q = own * k, own * q
    if u is not None:
        du = (own_q * k).sum((0, 1))
        own_k, own_q = own_k * u, own_q * u
    return (dq + own_k).to(q.dtype), (dk + own_q).to(k.dtype), dv, dg, dgk, du, dh0


def gate_gradient(late, early, last, reads_before_decay, sequences, over=()):
    """Return the gradient of the gates from the products at the two ends of every path.

    `late` and `early` [B, T, H, K] are q dq and k dk, `last` [N, H, K, V] is h dh at the ends of the sequences, without
    the paths from a token to itself. A head's one gate sums `over` the rows of the state.
    """
    last = last.sum(-1)
    if over:
        late, early, last = late.sum(over), early.sum(over), last.sum(over)
    x = (late - early).flatten(0, 1)
    ends = (sequences[:, 0] + sequences[:, 1] - 1).long()
    # The last key's only path ends in the last state, which is without it.
    x = x.index_copy(0, ends, late.flatten(0, 1)[ends] + last)
    x = reversed_sum(x, sequences).view(late.shape)
    if reads_before_decay:
        return x - late
    return x


def recurrence(q, k, v, g, gk, u, h0, scale, sequences):
    """Return (o, ht) of gated linear attention token by token, with gradients."""
    return differentiable(forward, backward)({"scale": scale, "sequences": sequences}, q, k, v, g, gk, u, h0)


def dplr_forward(q, k, v, a, b, gk, h0, scale, sequences):
    """Return ((o, ht), tensors to keep) of the generalised delta rule."""
    import torch

    H, K, V, N = q.shape[2], q.shape[3], v.shape[3], len(sequences)
    o, ht = torch.empty_like(v), q.new_empty(N, H, K, V, dtype=torch.float32)
    u = torch.empty_like(v, dtype=torch.float32)
    dplr_recurrent_fwd[lambda meta: (N * H, triton.cdiv(V, meta["BV"]))](
        q, k, v, a, b, gk, o, u, h0, ht, scale, sequences, H=H, K=K, V=V, BK=triton.next_power_of_2(K)
    )
    return (o, ht), (q, k, v, a, b, gk, h0, u)


def dplr_backward(kept, do, dht, scale, sequences):
    """Return the gradients of q, k, v, a, b, gk and h0."""
    import torch

    q, k, v, a, b, gk, h0, u = kept
    B, T, H, K, V, N = *q.shape, v.shape[3], len(sequences)
    sizes = {"H": H, "K": K, "V": V, "BK": triton.next_power_of_2(K), "BV": COLUMNS}
    NV = triton.cdiv(V, COLUMNS)
    dq, dk, da, db = (q.new_empty(NV, B, T, H, K, dtype=torch.float32) for _ in range(4))
    dv, du, dh0, hd = torch.empty_like(v), torch.empty_like(u), torch.empty_like(dht), torch.empty_like(dht)
    dplr_recurrent_bwd_dh[N * H, NV](
        q, k, v, a, b, gk, u, do, dk, db, dv, du, dht, dh0, scale, sequences, B * T, **sizes
    )
    dplr_recurrent_bwd_h[N * H, NV](k, v, b, gk, u, do, du, dq, da, h0, hd, scale, sequences, B * T, **sizes)
    dq, dk, da, db = (x.sum(0) for x in (dq, dk, da, db))
    dgk = None
    if gk is not None:
        # a meets the state before the decay of its token.
        own = a.double() * da
        late, early = q.double() * dq + own, k.double() * dk + b.double() * db
        dgk = (gate_gradient(late, early, hd.double() * dht, False, sequences) - own).to(gk.dtype)
    # A token's own k, b and query.
    through_k = scale * (do.float() * v.float()).sum(-1, keepdim=True)
    through_b = scale * (do.float() * u).sum(-1, keepdim=True)
    dq, dk, db = dq + through_k * k + through_b * b, dk + through_k * q, db + through_b * q
    return dq.to(q.dtype), dk.to(k.dtype), dv, da.to(a.dtype), db.to(b.dtype), dgk, dh0


def dplr_recurrence(q, k, v, a, b, gk, h0, scale, sequences):
    """Return (o, ht) of the generalised delta rule token by token, with gradients."""
    return differentiable(dplr_forward, dplr_backward)(
        {"scale": scale, "sequences": sequences}, q, k, v, a, b, gk, h0
    )
