"""Gated linear attention and the generalised delta rule token by token: forward and backward.

    h_t = Diag(exp(g_t)) h_{t-1} + b_t (h_{t-1}^T a_t)^T + k_t v_t^T        o_t = scale h_t^T q_t

(Yang et al. 2024, arXiv:2312.06635, without a and b; Peng et al. 2025, arXiv:2503.14456, with them.) A bonus u [H, K]
reads the state before its decay instead: o_t = scale (h_{t-1} + Diag(u) k_t v_t^T)^T q_t (Peng et al. 2024,
arXiv:2404.05892). Layouts are those of `_tiles`; g [R, H] or gk [R, H, K] is the log decay of each token, fp32. A
program keeps BV columns of a head's state; gradients that sum over the columns have one part a program, [NV, R, H, K].

Backward needs no division by a decay. One kernel walks forward with the state h, one walks back with its gradient dh.
The decay of token t lies on every path from a key before t to a query from t on: its gradient is the sum of q dq - k dk
over the tokens from t on, as every path between two of these tokens is in both terms. These sums are taken in float64,
and without the paths from a token to itself, which would cancel. Without a and b they begin again every 64 tokens, with
the paths that go on from there, h dh: over a whole sequence the errors of the terms would add up.
"""

import triton
import triton.language as tl

from ._host import differentiable
from ._tiles import load_chunk, load_sequence, load_tile, store_tile

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
                "hd": {"dtype": "fp32", "align": 16}, "scale": {"float": 0.125},
                "sequences": {"dtype": "i32", "align": 16}, "R": {"int": "{T}"}, "H": {"constexpr": "{H}"},
                "K": {"constexpr": "{K}"}, "V": {"constexpr": "{V}"}, "BT": {"constexpr": 64},
                "BK": {"constexpr": "{K}"}, "BV": {"constexpr": 16},
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
                "dh0": {"dtype": "fp32", "align": 16}, "hd": {"dtype": "fp32", "align": 16},
                "ends": {"dtype": "fp32", "align": 16}, "scale": {"float": 0.125},
                "sequences": {"dtype": "i32", "align": 16}, "R": {"int": "{T}"}, "H": {"constexpr": "{H}"},
                "K": {"constexpr": "{K}"}, "V": {"constexpr": "{V}"}, "BT": {"constexpr": 64},
                "BK": {"constexpr": "{K}"}, "BV": {"constexpr": 16},
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
    "global_cumsum": {
        "form": "fused_recurrent",
        "launch": {
            "args": {
                "x": {"dtype": "fp64", "align": 16}, "y": {"dtype": "fp64", "align": 16},
                "spans": {"dtype": "i32", "align": 16}, "S": {"constexpr": "{H}"}, "REVERSED": {"constexpr": 1},
            },
            "omitted": ["BT", "BS"],
        },
        "configs": [
            {"kwargs": {"BT": 64, "BS": 32}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BT": 32, "BS": 16}, "num_warps": 1, "num_stages": 2},
            {"kwargs": {"BT": 32, "BS": 64}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BT": 64, "BS": 16}, "num_warps": 2, "num_stages": 2},
        ],
        "keys": ["S", "REVERSED"],
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
    BT: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Write BV columns' part of dq [NV, R, H, K] without that of a token's own key, walking forward with the state.

    Also hd [NC, H, K, V], the state after each chunk of BT tokens without its last token.
    """
    i_nh, i_v = tl.program_id(0).to(tl.int64), tl.program_id(1)
    i_h = i_nh % H
    o_k, o_v = tl.arange(0, BK), i_v * BV + tl.arange(0, BV)
    m_k, m_v = o_k < K, o_v < V
    first, T, i_c = load_sequence(sequences, i_nh // H)
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
        # Two conditions: the first is decided while compiling.
        if hd is not None:  # noqa: SIM102
            if (t % BT == BT - 1) | (t == T - 1):
                store_tile(hd + ((i_c + t // BT) * H + i_h) * K * V, o_k * V, o_v, m_k, m_v, b_decayed)
        b_h = b_decayed + b_k[:, None] * b_v[None, :]
        tl.store(dq + row * K + o_k, b_dq, mask=m_k)


@triton.autotune(
    [triton.Config(**c) for c in KERNELS["fused_recurrent_bwd_dkv"]["configs"]],
    KERNELS["fused_recurrent_bwd_dkv"]["keys"],
)
@triton.jit
def fused_recurrent_bwd_dkv(
    q, k, v, g, gk, u, do, dk, dv, dht, dh0, hd, ends, scale, sequences, R, H: tl.constexpr, K: tl.constexpr,
    V: tl.constexpr, BT: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Write BV columns of dv and dh0, walking back with the state's gradient.

    Also their part of dk [NV, R, H, K] without that of a token's own query, and of ends [NC, H, NV, K], the products of
    hd and the gradient of the state after each chunk.
    """
    i_nh, i_v = tl.program_id(0).to(tl.int64), tl.program_id(1)
    i_h = i_nh % H
    o_k, o_v = tl.arange(0, BK), i_v * BV + tl.arange(0, BV)
    m_k, m_v = o_k < K, o_v < V
    first, T, i_c = load_sequence(sequences, i_nh // H)
    dk += i_v.to(tl.int64) * R * H * K
    b_dh = load_tile(dht + i_nh * K * V, o_k * V, o_v, m_k, m_v)
    for i in range(T):
        t = T - 1 - i
        if hd is not None:  # noqa: SIM102
            if (t % BT == BT - 1) | (i == 0):
                i_end = (i_c + t // BT) * H + i_h
                b_paths = b_dh * load_tile(hd + i_end * K * V, o_k * V, o_v, m_k, m_v)
                tl.store(ends + (i_end * tl.cdiv(V, BV) + i_v) * K + o_k, tl.sum(b_paths, axis=1), mask=m_k)
        row = (first + t) * H + i_h
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


@triton.autotune([triton.Config(**c) for c in KERNELS["global_cumsum"]["configs"]], KERNELS["global_cumsum"]["keys"])
@triton.jit
def global_cumsum(x, y, spans, S: tl.constexpr, REVERSED: tl.constexpr, BT: tl.constexpr, BS: tl.constexpr):
    """Write the running sum of x [R, S] within each span of rows, from its first row or, if REVERSED, from its last.

    `spans` [N, 2] holds each span's first row and its number of rows.
    """
    i_n, i_s = tl.program_id(0).to(tl.int64), tl.program_id(1)
    o_t, o_s = tl.arange(0, BT), i_s * BS + tl.arange(0, BS)
    first, n = load_chunk(spans, i_n)
    b_sum = tl.zeros([BS], dtype=x.dtype.element_ty)
    NT = tl.cdiv(n, BT)
    for i in range(NT):
        if REVERSED:
            o_n = (NT - 1 - i) * BT + o_t
        else:
            o_n = i * BT + o_t
        rows = (first + o_n) * S
        b_x = load_tile(x, rows, o_s, o_n < n, o_s < S)
        if REVERSED:
            b_y = tl.cumsum(b_x, axis=0, reverse=True)
        else:
            b_y = tl.cumsum(b_x, axis=0)
        store_tile(y, rows, o_s, o_n < n, o_s < S, b_y + b_sum[None, :])
        b_sum += tl.sum(b_x, axis=0)


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


def forward(q, k, v, g, gk, u, h0, scale, sequences, chunks):
    """Return ((o, ht), tensors to keep) for q, k [B, T, H, K], v [B, T, H, V], g [B, T, H] or gk [B, T, H, K]."""
    import torch

    H, K, V, N = q.shape[2], q.shape[3], v.shape[3], len(sequences)
    o, ht = torch.empty_like(v), q.new_empty(N, H, K, V, dtype=torch.float32)
    fused_recurrent_fwd[lambda meta: (N * H, triton.cdiv(V, meta["BV"]))](
        q, k, v, g, gk, u, o, h0, ht, scale, sequences, H=H, K=K, V=V, BK=triton.next_power_of_2(K)
    )
    return (o, ht), (q, k, v, g, gk, u, h0)


def backward(kept, do, dht, scale, sequences, chunks, BT=64):
    """Return the gradients of q, k, v, g, gk, u and h0."""
    import torch

    q, k, v, g, gk, u, h0 = kept
    B, T, H, K, V, N, NC = *q.shape, v.shape[3], len(sequences), len(chunks)
    sizes = {"H": H, "K": K, "V": V, "BT": BT, "BK": triton.next_power_of_2(K), "BV": COLUMNS}
    NV = triton.cdiv(V, COLUMNS)
    dq, dk = (q.new_empty(NV, B, T, H, K, dtype=torch.float32) for _ in range(2))
    dv, dh0 = torch.empty_like(v), torch.empty_like(dht)
    hd = ends = None
    if g is not None or gk is not None:
        hd, ends = dht.new_empty(NC, H, K, V), dht.new_empty(NC, H, NV, K)
    fused_recurrent_bwd_dq[N * H, NV](k, v, g, gk, u, do, dq, h0, hd, scale, sequences, B * T, **sizes)
    fused_recurrent_bwd_dkv[N * H, NV](
        q, k, v, g, gk, u, do, dk, dv, dht, dh0, hd, ends, scale, sequences, B * T, **sizes
    )
    dq, dk = dq.sum(0), dk.sum(0)
    dg = dgk = du = None
    if ends is not None:
        late, early, last = q.double() * dq, k.double() * dk, ends.double().sum(2)
        if g is not None:
            # A head has one gate for all rows of its state.
            late, early, last = late.sum(-1), early.sum(-1), last.sum(-1)
        gradient = gate_gradient(late, early, last, u is not None, chunks).float()
        if g is not None:
            dg = gradient
        else:
            dgk = gradient
    # A token's own key and query, added last: they are no part of the gates' gradients, where they would cancel.
    own = scale * (do.float() * v.float()).sum(-1, keepdim=True)
    own_k, own_q = own * k, own * q
    if u is not None:
        du = (own_q * k).sum((0, 1))
        own_k, own_q = own_k * u, own_q * u
    return (dq + own_k).to(q.dtype), (dk + own_q).to(k.dtype), dv, dg, dgk, du, dh0


def gate_gradient(late, early, last, reads_before_decay, spans):
    """Return the gradient of the gates from the products at the two ends of every path, in float64.

    `late` and `early` [B, T, H, K] or [B, T, H] are q dq and k dk, `last` [N, H, K] or [N, H] is h dh at the end of each
    of the N spans of tokens, [N, 2 or more], i32: all without the paths from a token to itself.
    """
    x = (late - early).flatten(0, 1)
    ends = (spans[:, 0] + spans[:, 1] - 1).long()
    # The last key's paths lead out of its span, and h dh is without them.
    x = x.index_copy(0, ends, late.flatten(0, 1)[ends] + last)
    gradient = summed(x, spans).view(late.shape)
    if reads_before_decay:
        return gradient - late
    return gradient


def summed(x, spans):
    """Return the sum over this row and the later ones of its span, for x [R, ...]."""
    import torch

    y, S = torch.empty_like(x), x[0].numel()
    global_cumsum[lambda meta: (len(spans), triton.cdiv(S, meta["BS"]))](
        x, y, spans[:, :2].contiguous(), S=S, REVERSED=1
    )
    return y


def recurrence(q, k, v, g, gk, u, h0, scale, sequences, chunks):
    """Return (o, ht) of gated linear attention token by token, with gradients; a chunk is up to 64 tokens."""
    options = {"scale": scale, "sequences": sequences, "chunks": chunks}
    return differentiable(forward, backward)(options, q, k, v, g, gk, u, h0)


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
        last = (hd.double() * dht).sum(-1)
        dgk = (gate_gradient(late, early, last, False, sequences) - own).to(gk.dtype)
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
