"""Linear attention with one decay a token and head, or none, in chunks: forward and backward.

    h_t = exp(g_t) h_{t-1} + k_t v_t^T        o_t = scale h_t^T q_t

With G the sum of g within a chunk, h the state before the chunk and S_ij = exp(G_i - G_j) q_i.k_j for i >= j:

    o_i = scale (exp(G_i) h^T q_i + sum_j S_ij v_j)        h' = exp(G_last) h + sum_j exp(G_last - G_j) k_j v_j^T

(Yang et al. 2024, arXiv:2312.06635; Dao and Gu 2024, arXiv:2405.21060). Backward walks the states' gradients dh from the
last chunk to the first; the gradient of g_t sums the products along every path from a token before t to one at or after
t, so it needs no difference of large numbers. Layouts are those of `_tiles`; h and dh [NC, H, K, V] hold the state
before, and the gradient of the state after, each chunk; g and dg [R, H] are fp32.
"""

import triton
import triton.language as tl

from ._host import differentiable
from ._tiles import (
    decay_between,
    load_chunk,
    load_sequence,
    load_tile,
    reaches,
    store_tile,
    token_decay,
)

# fmt: off
KERNELS = {
    "chunk_local_cumsum": {
        "form": "chunk",
        "launch": {
            "args": {
                "g": {"dtype": "fp32", "align": 16}, "G": {"dtype": "fp32", "align": 16},
                "chunks": {"dtype": "i32", "align": 16}, "S": {"constexpr": "{H}"}, "BT": {"constexpr": 64},
            },
            "omitted": ["BS"],
        },
        "configs": [
            {"kwargs": {"BS": 32}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BS": 16}, "num_warps": 1, "num_stages": 2},
            {"kwargs": {"BS": 64}, "num_warps": 8, "num_stages": 2},
            {"kwargs": {"BS": 32}, "num_warps": 2, "num_stages": 2},
        ],
        "keys": ["S", "BT"],
    },
    "chunk_fwd_h": {
        "form": "chunk",
        "launch": {
            "args": {
                "k": {"dtype": "{dtype}", "align": 16}, "v": {"dtype": "{dtype}", "align": 16},
                "g": {"dtype": "fp32", "align": 16}, "gk": {"dtype": "fp32", "align": 16},
                "h": {"dtype": "{dtype}", "align": 16}, "h0": {"dtype": "fp32", "align": 16},
                "ht": {"dtype": "fp32", "align": 16}, "sequences": {"dtype": "i32", "align": 16},
                "H": {"constexpr": "{H}"}, "K": {"constexpr": "{K}"}, "V": {"constexpr": "{V}"},
                "BT": {"constexpr": 64},
            },
            "omitted": ["BK", "BV"],
        },
        "configs": [
            {"kwargs": {"BK": 64, "BV": 64}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BK": 64, "BV": 64}, "num_warps": 4, "num_stages": 3},
            {"kwargs": {"BK": 32, "BV": 64}, "num_warps": 2, "num_stages": 2},
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
                "scale": {"float": 0.125}, "chunks": {"dtype": "i32", "align": 16}, "H": {"constexpr": "{H}"},
                "K": {"constexpr": "{K}"}, "V": {"constexpr": "{V}"}, "BT": {"constexpr": 64},
            },
            "omitted": ["BK", "BV"],
        },
        "configs": [
            {"kwargs": {"BK": 64, "BV": 64}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BK": 32, "BV": 64}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {"BK": 64, "BV": 128}, "num_warps": 8, "num_stages": 2},
            {"kwargs": {"BK": 64, "BV": 128}, "num_warps": 4, "num_stages": 3},
        ],
        "keys": ["H", "K", "V", "BT"],
    },
    "chunk_bwd_dh": {
        "form": "chunk",
        "launch": {
            "args": {
                "q": {"dtype": "{dtype}", "align": 16}, "do": {"dtype": "{dtype}", "align": 16},
                "g": {"dtype": "fp32", "align": 16}, "gq": {"dtype": "fp32", "align": 16},
                "gk": {"dtype": "fp32", "align": 16}, "dh": {"dtype": "{dtype}", "align": 16},
                "dht": {"dtype": "fp32", "align": 16}, "dh0": {"dtype": "fp32", "align": 16}, "scale": {"float": 0.125},
                "sequences": {"dtype": "i32", "align": 16}, "H": {"constexpr": "{H}"}, "K": {"constexpr": "{K}"},
                "V": {"constexpr": "{V}"}, "BT": {"constexpr": 64},
            },
            "omitted": ["BK", "BV"],
        },
        "configs": [
            {"kwargs": {"BK": 64, "BV": 64}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BK": 64, "BV": 64}, "num_warps": 4, "num_stages": 3},
            {"kwargs": {"BK": 32, "BV": 64}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {"BK": 128, "BV": 64}, "num_warps": 8, "num_stages": 2},
        ],
        "keys": ["H", "K", "V", "BT"],
    },
    "chunk_bwd_dv": {
        "form": "chunk",
        "launch": {
            "args": {
                "q": {"dtype": "{dtype}", "align": 16}, "k": {"dtype": "{dtype}", "align": 16},
                "g": {"dtype": "fp32", "align": 16}, "do": {"dtype": "{dtype}", "align": 16},
                "dh": {"dtype": "{dtype}", "align": 16}, "dv": {"dtype": "{dtype}", "align": 16},
                "scale": {"float": 0.125}, "chunks": {"dtype": "i32", "align": 16}, "H": {"constexpr": "{H}"},
                "K": {"constexpr": "{K}"}, "V": {"constexpr": "{V}"}, "BT": {"constexpr": 64},
            },
            "omitted": ["BK", "BV"],
        },
        "configs": [
            {"kwargs": {"BK": 64, "BV": 64}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BK": 32, "BV": 64}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {"BK": 64, "BV": 128}, "num_warps": 8, "num_stages": 2},
            {"kwargs": {"BK": 64, "BV": 128}, "num_warps": 4, "num_stages": 3},
        ],
        "keys": ["H", "K", "V", "BT"],
    },
    "chunk_bwd_dqkg": {
        "form": "chunk",
        "launch": {
            "args": {
                "q": {"dtype": "{dtype}", "align": 16}, "k": {"dtype": "{dtype}", "align": 16},
                "v": {"dtype": "{dtype}", "align": 16}, "g": {"dtype": "fp32", "align": 16},
                "h": {"dtype": "{dtype}", "align": 16}, "do": {"dtype": "{dtype}", "align": 16},
                "dh": {"dtype": "{dtype}", "align": 16}, "dv": {"dtype": "{dtype}", "align": 16},
                "dq": {"dtype": "{dtype}", "align": 16}, "dk": {"dtype": "{dtype}", "align": 16},
                "dw": {"dtype": "{dtype}", "align": 16}, "dg": {"dtype": "fp32", "align": 16},
                "scale": {"float": 0.125}, "chunks": {"dtype": "i32", "align": 16}, "R": {"int": "{T}"},
                "H": {"constexpr": "{H}"}, "K": {"constexpr": "{K}"}, "V": {"constexpr": "{V}"}, "BT": {"constexpr": 64},
                "BK": {"constexpr": 64},
            },
            "omitted": ["BV"],
        },
        "configs": [
            {"kwargs": {"BV": 64}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BV": 32}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BV": 64}, "num_warps": 8, "num_stages": 2},
            {"kwargs": {"BV": 32}, "num_warps": 4, "num_stages": 3},
        ],
        "keys": ["H", "K", "V", "BT", "BK"],
    },
}
# fmt: on


@triton.autotune(
    [triton.Config(**c) for c in KERNELS["chunk_local_cumsum"]["configs"]], KERNELS["chunk_local_cumsum"]["keys"]
)
@triton.jit
def chunk_local_cumsum(g, G, chunks, S: tl.constexpr, BT: tl.constexpr, BS: tl.constexpr):
    """Write the running sum of g [R, S] within each chunk."""
    i_c, i_s = tl.program_id(0).to(tl.int64), tl.program_id(1)
    first, n = load_chunk(chunks, i_c)
    o_t, o_s = tl.arange(0, BT), i_s * BS + tl.arange(0, BS)
    b_g = load_tile(g, (first + o_t) * S, o_s, o_t < n, o_s < S)
    store_tile(G, (first + o_t) * S, o_s, o_t < n, o_s < S, tl.cumsum(b_g.to(tl.float32), axis=0))


@triton.autotune([triton.Config(**c) for c in KERNELS["chunk_fwd_h"]["configs"]], KERNELS["chunk_fwd_h"]["keys"])
@triton.jit
def chunk_fwd_h(
    k, v, g, gk, h, h0, ht, sequences, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BT: tl.constexpr,
    BK: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Write the state before every chunk; a program walks one BK x BV tile of one head's state.

    The decay is g [R, H], or gk [R, H, K] for one decay a row of the state; None is no decay.
    """
    i_nh, i_k, i_v = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    i_n, i_h = i_nh // H, i_nh % H
    o_t, o_k, o_v = tl.arange(0, BT), i_k * BK + tl.arange(0, BK), i_v * BV + tl.arange(0, BV)
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
        b_k = load_tile(k, o_k, row * K, m_k, m_t)
        b_v = load_tile(v, row * V, o_v, m_t, m_v)
        if g is not None:
            b_last = tl.load(g + end)
            b_g = tl.load(g + row, mask=m_t, other=0.0)
            b_h = b_h * tl.exp(b_last)
            b_v = (b_v * decay_between(b_last, b_g, m_t)[:, None]).to(b_v.dtype)
        if gk is not None:
            b_ends = tl.load(gk + end * K + o_k, mask=m_k, other=0.0)
            b_gk = load_tile(gk, o_k, row * K, m_k, m_t)
            b_h = b_h * tl.exp(b_ends)[:, None]
            b_k = (b_k * decay_between(b_ends[:, None], b_gk, m_t[None, :])).to(b_k.dtype)
        b_h += tl.dot(b_k, b_v)
    if ht is not None:
        store_tile(ht + i_nh * K * V, o_k * V, o_v, m_k, m_v, b_h)


@triton.autotune([triton.Config(**c) for c in KERNELS["chunk_fwd_o"]["configs"]], KERNELS["chunk_fwd_o"]["keys"])
@triton.jit
def chunk_fwd_o(
    q, k, v, g, h, o, scale, chunks, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BT: tl.constexpr,
    BK: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Write BV columns of one chunk's output: the part of the state, and the part of the chunk's own tokens."""
    i_ch, i_v = tl.program_id(0).to(tl.int64), tl.program_id(1)
    i_c, i_h = i_ch // H, i_ch % H
    first, n = load_chunk(chunks, i_c)
    o_t, o_v = tl.arange(0, BT), i_v * BV + tl.arange(0, BV)
    m_t, m_v = o_t < n, o_v < V
    row = (first + o_t) * H + i_h
    b_o = tl.zeros([BT, BV], dtype=tl.float32)
    b_a = tl.zeros([BT, BT], dtype=tl.float32)
    for i_k in range(tl.cdiv(K, BK)):
        o_k = i_k * BK + tl.arange(0, BK)
        b_q = load_tile(q, row * K, o_k, m_t, o_k < K)
        b_o += tl.dot(b_q, load_tile(h + i_ch * K * V, o_k * V, o_v, o_k < K, m_v))
        b_a += tl.dot(b_q, load_tile(k, o_k, row * K, o_k < K, m_t))
    if g is not None:
        b_g = tl.load(g + row, mask=m_t, other=0.0)
        b_o = b_o * tl.exp(b_g)[:, None]
        b_a = b_a * token_decay(b_g, o_t, m_t, False)
    else:
        b_a = tl.where(reaches(o_t, m_t, False), b_a, 0.0)
    b_v = load_tile(v, row * V, o_v, m_t, m_v)
    b_o += tl.dot(b_a.to(b_v.dtype), b_v)
    store_tile(o, row * V, o_v, m_t, m_v, b_o * scale)


@triton.autotune([triton.Config(**c) for c in KERNELS["chunk_bwd_dh"]["configs"]], KERNELS["chunk_bwd_dh"]["keys"])
@triton.jit
def chunk_bwd_dh(
    q, do, g, gq, gk, dh, dht, dh0, scale, sequences, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr,
    BT: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Write the gradient of the state after every chunk, from the last to the first, and that of h0.

    gq and gk [R, H, K] are the sums of the decays up to where a query and a key meet the state.
    """
    i_nh, i_k, i_v = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    i_n, i_h = i_nh // H, i_nh % H
    o_t, o_k, o_v = tl.arange(0, BT), i_k * BK + tl.arange(0, BK), i_v * BV + tl.arange(0, BV)
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
        b_q = load_tile(q, o_k, row * K, m_k, m_t)
        b_do = load_tile(do, row * V, o_v, m_t, m_v)
        if g is not None:
            b_g = tl.load(g + row, mask=m_t, other=0.0)
            b_dh = b_dh * tl.exp(tl.load(g + end))
            b_q = (b_q * tl.exp(b_g)[None, :]).to(b_q.dtype)
        if gk is not None:
            b_gq = load_tile(gq, o_k, row * K, m_k, m_t)
            b_dh = b_dh * tl.exp(tl.load(gk + end * K + o_k, mask=m_k, other=0.0))[:, None]
            b_q = (b_q * tl.exp(b_gq)).to(b_q.dtype)
        b_dh += tl.dot(b_q, b_do) * scale
    store_tile(dh0 + i_nh * K * V, o_k * V, o_v, m_k, m_v, b_dh)


@triton.autotune([triton.Config(**c) for c in KERNELS["chunk_bwd_dv"]["configs"]], KERNELS["chunk_bwd_dv"]["keys"])
@triton.jit
def chunk_bwd_dv(
    q, k, g, do, dh, dv, scale, chunks, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BT: tl.constexpr,
    BK: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Write dv_j = scale sum_i S_ij do_i + exp(G_last - G_j) dh^T k_j; without dh only the first term."""
    i_ch, i_v = tl.program_id(0).to(tl.int64), tl.program_id(1)
    i_c, i_h = i_ch // H, i_ch % H
    first, n = load_chunk(chunks, i_c)
    o_t, o_v = tl.arange(0, BT), i_v * BV + tl.arange(0, BV)
    m_t, m_v = o_t < n, o_v < V
    row = (first + o_t) * H + i_h
    b_dv = tl.zeros([BT, BV], dtype=tl.float32)
    b_a = tl.zeros([BT, BT], dtype=tl.float32)
    for i_k in range(tl.cdiv(K, BK)):
        o_k = i_k * BK + tl.arange(0, BK)
        b_k = load_tile(k, row * K, o_k, m_t, o_k < K)
        b_a += tl.dot(b_k, load_tile(q, o_k, row * K, o_k < K, m_t))
        if dh is not None:
            b_dv += tl.dot(b_k, load_tile(dh + i_ch * K * V, o_k * V, o_v, o_k < K, m_v))
    if g is not None:
        b_g = tl.load(g + row, mask=m_t, other=0.0)
        b_last = tl.load(g + (first + n - 1) * H + i_h)
        b_dv = b_dv * decay_between(b_last, b_g, m_t)[:, None]
        b_a = b_a * tl.trans(token_decay(b_g, o_t, m_t, False))
    else:
        b_a = tl.where(tl.trans(reaches(o_t, m_t, False)), b_a, 0.0)
    b_do = load_tile(do, row * V, o_v, m_t, m_v)
    b_dv += tl.dot((b_a * scale).to(b_do.dtype), b_do)
    store_tile(dv, row * V, o_v, m_t, m_v, b_dv)


@triton.autotune([triton.Config(**c) for c in KERNELS["chunk_bwd_dqkg"]["configs"]], KERNELS["chunk_bwd_dqkg"]["keys"])
@triton.jit
def chunk_bwd_dqkg(
    q, k, v, g, h, do, dh, dv, dq, dk, dw, dg, scale, chunks, R, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr,
    BT: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Write BK columns of one chunk's dq and dk, and their part of dg [K / BK, R, H].

    With dw, also the gradient of a delta rule's w, whose values are u - w h: dw = -dv h^T.
    """
    i_ch, i_k = tl.program_id(0).to(tl.int64), tl.program_id(1)
    i_c, i_h = i_ch // H, i_ch % H
    first, n = load_chunk(chunks, i_c)
    o_t, o_k = tl.arange(0, BT), i_k * BK + tl.arange(0, BK)
    m_t, m_k = o_t < n, o_k < K
    row = (first + o_t) * H + i_h
    b_dq = tl.zeros([BT, BK], dtype=tl.float32)
    b_dk = tl.zeros([BT, BK], dtype=tl.float32)
    b_dw = tl.zeros([BT, BK], dtype=tl.float32)
    b_ds = tl.zeros([BT, BT], dtype=tl.float32)
    b_state = tl.zeros([BK], dtype=tl.float32)
    for i_v in range(tl.cdiv(V, BV)):
        o_v = i_v * BV + tl.arange(0, BV)
        m_v = o_v < V
        b_v = load_tile(v, row * V, o_v, m_t, m_v)
        b_do = load_tile(do, row * V, o_v, m_t, m_v)
        b_h = load_tile(h + i_ch * K * V, o_v, o_k * V, m_v, m_k)
        b_dh = load_tile(dh + i_ch * K * V, o_v, o_k * V, m_v, m_k)
        b_ds += tl.dot(b_do, tl.trans(b_v))
        b_dq += tl.dot(b_do, b_h)
        b_dk += tl.dot(b_v, b_dh)
        if dw is not None:
            b_dw -= tl.dot(load_tile(dv, row * V, o_v, m_t, m_v), b_h)
        if g is not None:
            b_state += tl.sum(b_h.to(tl.float32) * b_dh.to(tl.float32), axis=0)
    if dw is not None:
        store_tile(dw, row * K, o_k, m_t, m_k, b_dw)
    b_q = load_tile(q, row * K, o_k, m_t, m_k)
    b_k = load_tile(k, row * K, o_k, m_t, m_k)
    b_dq = b_dq * scale
    if g is not None:
        b_g = tl.load(g + row, mask=m_t, other=0.0)
        b_last = tl.load(g + (first + n - 1) * H + i_h)
        b_dq = b_dq * tl.exp(b_g)[:, None]
        b_dk = b_dk * decay_between(b_last, b_g, m_t)[:, None]
        b_ds = b_ds * token_decay(b_g, o_t, m_t, False)
        # From before the chunk to its tokens; from its tokens to later chunks.
        b_late = tl.sum(b_dq * b_q, axis=1)
        b_early = tl.sum(b_dk * b_k, axis=1)
    else:
        b_ds = tl.where(reaches(o_t, m_t, False), b_ds, 0.0)
    b_ds = b_ds * scale
    b_d = b_ds.to(b_k.dtype)
    store_tile(dq, row * K, o_k, m_t, m_k, b_dq + tl.dot(b_d, b_k))
    store_tile(dk, row * K, o_k, m_t, m_k, b_dk + tl.dot(tl.trans(b_d), b_q))
    if g is not None:
        is_late = o_t[:, None] >= o_t[None, :]
        b_dg = tl.sum(tl.where(is_late, b_late[:, None], b_early[:, None]), axis=0)
        b_dg += tl.exp(b_last) * tl.sum(b_state)
        # Between tokens of the chunk: from each j < t to each i >= t.
        b_ds = tl.where(is_late & (o_t[:, None] != o_t[None, :]), b_ds * tl.dot(b_q, tl.trans(b_k)), 0.0)
        b_paths = tl.dot(tl.where(is_late, 0.0, 1.0) + tl.where(o_t[:, None] == o_t[None, :], 1.0, 0.0), b_ds)
        b_dg += tl.sum(tl.where(o_t[:, None] > o_t[None, :], b_paths, 0.0), axis=1)
        tl.store(dg + i_k.to(tl.int64) * R * H + row, b_dg, mask=m_t)


def local_cumsum(g, chunks, BT=64):
    """Return the sum of g [R, ...], fp32, from the first token of each chunk."""
    import torch

    G = torch.empty_like(g)
    S = g[0].numel()
    chunk_local_cumsum[lambda meta: (len(chunks), triton.cdiv(S, meta["BS"]))](g, G, chunks, S=S, BT=BT)
    return G


def forward(q, k, v, g, h0, scale, sequences, chunks, BT=64):
    """Return ((o, ht), tensors to keep) for q, k [B, T, H, K], v [B, T, H, V], g [B, T, H] or None."""
    import torch

    H, K, V, NC = q.shape[2], q.shape[3], v.shape[3], len(chunks)
    G = None if g is None else local_cumsum(g.flatten(0, 1), chunks)
    h, o = q.new_empty(NC, H, K, V), torch.empty_like(v)
    ht = q.new_empty(len(sequences), H, K, V, dtype=torch.float32)
    chunk_fwd_h[lambda meta: (len(sequences) * H, triton.cdiv(K, meta["BK"]), triton.cdiv(V, meta["BV"]))](
        k, v, G, None, h, h0, ht, sequences, H=H, K=K, V=V, BT=BT
    )
    chunk_fwd_o[lambda meta: (NC * H, triton.cdiv(V, meta["BV"]))](
        q, k, v, G, h, o, scale, chunks, H=H, K=K, V=V, BT=BT
    )
    return (o, ht), (q, k, v, G, h)


def backward(kept, do, dht, scale, sequences, chunks, BT=64):
    """Return the gradients of q, k, v, g and h0."""
    import torch

    q, k, v, G, h = kept
    H, K, V, NC, R = q.shape[2], q.shape[3], v.shape[3], len(chunks), q.shape[0] * q.shape[1]
    dh, dh0 = torch.empty_like(h), torch.empty_like(dht)
    chunk_bwd_dh[lambda meta: (len(sequences) * H, triton.cdiv(K, meta["BK"]), triton.cdiv(V, meta["BV"]))](
        q, do, G, None, None, dh, dht, dh0, scale, sequences, H=H, K=K, V=V, BT=BT
    )
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    chunk_bwd_dv[lambda meta: (NC * H, triton.cdiv(V, meta["BV"]))](
        q, k, G, do, dh, dv, scale, chunks, H=H, K=K, V=V, BT=BT
    )
    BK = 64
    dg = None if G is None else G.new_empty(triton.cdiv(K, BK), *q.shape[:3])
    chunk_bwd_dqkg[(NC * H, triton.cdiv(K, BK))](
        q, k, v, G, h, do, dh, None, dq, dk, None, dg, scale, chunks, R, H=H, K=K, V=V, BT=BT, BK=BK
    )
    return dq, dk, dv, None if dg is None else dg.sum(0), dh0


def attention(q, k, v, g, h0, scale, sequences, chunks):
    """Return (o, ht) in chunks of 64 tokens, with gradients."""
    options = {"scale": scale, "sequences": sequences, "chunks": chunks}
    return differentiable(forward, backward)(options, q, k, v, g, h0)
