"""Linear attention with one decay a row of the state, in chunks: forward and backward.

    h_t = Diag(exp(g_t)) h_{t-1} + k_t v_t^T        o_t = scale h_t^T q_t

With G the sum of g within a chunk and h the state before it:

    A_ij = scale sum_k q_ik k_jk exp(G_ik - G_jk), i >= j        o_i = scale h^T (exp(G_i) q_i) + sum_j A_ij v_j
    h' = Diag(exp(G_last)) h + sum_j (exp(G_last - G_j) k_j) v_j^T

(Yang et al. 2024, arXiv:2312.06635). A query may meet the state before its own decay; its sum GQ is then that of the
tokens before it, and its own key counts with a bonus u [H, K] (Peng et al. 2024, arXiv:2404.05892) or not at all. The
decays differ between the rows of the state, so no factor of a token's own can be taken out of A without overflow:
blocks of 16 queries meet earlier blocks through the decay at the block's first token, where both exponents are at most
0, and their own block pair by pair (the paper's secondary chunks).

Layouts are those of `_tiles`; g, G and GQ [R, H, K] are fp32, h and dh [NC, H, K, V] hold the state before, and the
gradient of the state after, each chunk. The gradient of g_t sums every path from a token before t to one at or after t,
without the paths from a token to itself, which would cancel.
"""

import triton
import triton.language as tl

from ._host import differentiable
from ._scalar import chunk_bwd_dh, chunk_fwd_h, local_cumsum
from ._tiles import decay_between, load_chunk, load_tile, store_tile

# fmt: off
KERNELS = {
    "gated_scores": {
        "form": "chunk",
        "launch": {
            "args": {
                "q": {"dtype": "{dtype}", "align": 16}, "k": {"dtype": "{dtype}", "align": 16},
                "gq": {"dtype": "fp32", "align": 16}, "gk": {"dtype": "fp32", "align": 16},
                "u": {"dtype": "fp32", "align": 16}, "A": {"dtype": "{dtype}", "align": 16}, "scale": {"float": 0.125},
                "chunks": {"dtype": "i32", "align": 16}, "H": {"constexpr": "{H}"}, "K": {"constexpr": "{K}"},
                "BT": {"constexpr": 64}, "STRICT": {"constexpr": 0},
            },
            "omitted": ["BK"],
        },
        "configs": [
            {"kwargs": {"BK": 64}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {"BK": 32}, "num_warps": 1, "num_stages": 2},
            {"kwargs": {"BK": 64}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BK": 32}, "num_warps": 2, "num_stages": 3},
        ],
        "keys": ["H", "K", "BT"],
    },
    "gated_fwd_o": {
        "form": "chunk",
        "launch": {
            "args": {
                "q": {"dtype": "{dtype}", "align": 16}, "v": {"dtype": "{dtype}", "align": 16},
                "gq": {"dtype": "fp32", "align": 16}, "h": {"dtype": "{dtype}", "align": 16},
                "A": {"dtype": "{dtype}", "align": 16}, "A2": {"dtype": "{dtype}", "align": 16},
                "v2": {"dtype": "{dtype}", "align": 16}, "o": {"dtype": "{dtype}", "align": 16},
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
    "outer_scores": {
        "form": "chunk",
        "launch": {
            "args": {
                "x": {"dtype": "{dtype}", "align": 16}, "y": {"dtype": "{dtype}", "align": 16},
                "A": {"dtype": "{dtype}", "align": 16}, "scale": {"float": 0.125},
                "chunks": {"dtype": "i32", "align": 16}, "H": {"constexpr": "{H}"}, "V": {"constexpr": "{V}"},
                "BT": {"constexpr": 64},
            },
            "omitted": ["BV"],
        },
        "configs": [
            {"kwargs": {"BV": 64}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BV": 32}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {"BV": 128}, "num_warps": 8, "num_stages": 2},
            {"kwargs": {"BV": 64}, "num_warps": 4, "num_stages": 3},
        ],
        "keys": ["H", "V", "BT"],
    },
    "gated_bwd_scores": {
        "form": "chunk",
        "launch": {
            "args": {
                "q": {"dtype": "{dtype}", "align": 16}, "k": {"dtype": "{dtype}", "align": 16},
                "gq": {"dtype": "fp32", "align": 16}, "gk": {"dtype": "fp32", "align": 16},
                "dA": {"dtype": "{dtype}", "align": 16}, "dq": {"dtype": "fp32", "align": 16},
                "dk": {"dtype": "fp32", "align": 16}, "chunks": {"dtype": "i32", "align": 16},
                "H": {"constexpr": "{H}"}, "K": {"constexpr": "{K}"}, "BT": {"constexpr": 64},
            },
            "omitted": ["BK"],
        },
        "configs": [
            {"kwargs": {"BK": 64}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BK": 32}, "num_warps": 1, "num_stages": 2},
            {"kwargs": {"BK": 64}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {"BK": 32}, "num_warps": 2, "num_stages": 3},
        ],
        "keys": ["H", "K", "BT"],
    },
    "gated_bwd_dv": {
        "form": "chunk",
        "launch": {
            "args": {
                "k": {"dtype": "{dtype}", "align": 16}, "gk": {"dtype": "fp32", "align": 16},
                "do": {"dtype": "{dtype}", "align": 16}, "dh": {"dtype": "{dtype}", "align": 16},
                "A": {"dtype": "{dtype}", "align": 16}, "A2": {"dtype": "{dtype}", "align": 16},
                "do2": {"dtype": "{dtype}", "align": 16}, "dv": {"dtype": "{dtype}", "align": 16},
                "chunks": {"dtype": "i32", "align": 16}, "H": {"constexpr": "{H}"},
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
    "gated_bwd_dqkg": {
        "form": "chunk",
        "launch": {
            "args": {
                "q": {"dtype": "{dtype}", "align": 16}, "k": {"dtype": "{dtype}", "align": 16},
                "v": {"dtype": "{dtype}", "align": 16}, "gq": {"dtype": "fp32", "align": 16},
                "gk": {"dtype": "fp32", "align": 16}, "u": {"dtype": "fp32", "align": 16},
                "h": {"dtype": "{dtype}", "align": 16}, "do": {"dtype": "{dtype}", "align": 16},
                "dh": {"dtype": "{dtype}", "align": 16}, "xq": {"dtype": "fp32", "align": 16},
                "xk": {"dtype": "fp32", "align": 16}, "dq": {"dtype": "{dtype}", "align": 16},
                "dk": {"dtype": "{dtype}", "align": 16}, "dg": {"dtype": "fp32", "align": 16},
                "du": {"dtype": "fp32", "align": 16}, "scale": {"float": 0.125},
                "chunks": {"dtype": "i32", "align": 16}, "H": {"constexpr": "{H}"}, "K": {"constexpr": "{K}"},
                "V": {"constexpr": "{V}"}, "BT": {"constexpr": 64}, "STRICT": {"constexpr": 0},
            },
            "omitted": ["BK", "BV"],
        },
        "configs": [
            {"kwargs": {"BK": 32, "BV": 64}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BK": 32, "BV": 32}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {"BK": 64, "BV": 64}, "num_warps": 8, "num_stages": 2},
            {"kwargs": {"BK": 64, "BV": 32}, "num_warps": 4, "num_stages": 3},
        ],
        "keys": ["H", "K", "V", "BT"],
    },
}
# fmt: on

# The queries that share one decay on their way to earlier keys.
BLOCK = tl.constexpr(16)


@triton.jit
def score_rows(i_c, o_t, i_h, H: tl.constexpr, BT: tl.constexpr):
    """Return the offsets of rows of a chunk's matrix [NC, BT, H, BT]."""
    return ((i_c * BT + o_t) * H + i_h) * BT


@triton.autotune([triton.Config(**c) for c in KERNELS["gated_scores"]["configs"]], KERNELS["gated_scores"]["keys"])
@triton.jit
def gated_scores(
    q, k, gq, gk, u, A, scale, chunks, H: tl.constexpr, K: tl.constexpr, BT: tl.constexpr, STRICT: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    """Write 16 rows of A_ij = scale sum_k q_ik k_jk exp(gq_ik - gk_jk) for i >= j (i > j if STRICT), zero elsewhere.

    With u, the diagonal is scale sum_k u_k q_ik k_ik.
    """
    i_ch, i_b = tl.program_id(0).to(tl.int64), tl.program_id(1)
    i_c, i_h = i_ch // H, i_ch % H
    first, n = load_chunk(chunks, i_c)
    start = i_b * BLOCK
    o_t, o_i = tl.arange(0, BT), tl.arange(0, BLOCK)
    o_b = start + o_i
    # A block past the last token has no rows; its reference is the last token's.
    ref = tl.minimum(start, n - 1)
    m_b, m_early = o_b < n, o_t < ref
    row_b, row_t = (first + o_b) * H + i_h, (first + o_t) * H + i_h
    b_a = tl.zeros([BLOCK, BT], dtype=tl.float32)
    b_own = tl.zeros([BLOCK, BLOCK], dtype=tl.float32)
    for i_k in range(tl.cdiv(K, BK)):
        o_k = i_k * BK + tl.arange(0, BK)
        m_k = o_k < K
        b_q = load_tile(q, row_b * K, o_k, m_b, m_k)
        b_gq = load_tile(gq, row_b * K, o_k, m_b, m_k)
        b_ref = tl.load(gq + ((first + ref) * H + i_h) * K + o_k, mask=m_k, other=0.0)
        b_k = load_tile(k, o_k, row_t * K, m_k, m_early)
        b_gk = load_tile(gk, o_k, row_t * K, m_k, m_early)
        b_late = (b_q * decay_between(b_gq, b_ref[None, :], m_b[:, None])).to(b_q.dtype)
        b_early = (b_k * decay_between(b_ref[:, None], b_gk, m_early[None, :])).to(b_k.dtype)
        b_a += tl.dot(b_late, b_early)
        for j in range(BLOCK):
            t_j = tl.minimum(start + j, n - 1)
            at = ((first + t_j) * H + i_h) * K + o_k
            b_kj = tl.load(k + at, mask=m_k, other=0.0).to(tl.float32)
            b_gj = tl.load(gk + at, mask=m_k, other=0.0)
            if STRICT:
                m_i = m_b & (o_i > j)
            else:
                m_i = m_b & (o_i >= j)
            b_x = b_q * b_kj[None, :] * decay_between(b_gq, b_gj[None, :], m_i[:, None])
            if u is not None:
                b_u = tl.load(u + i_h * K + o_k, mask=m_k, other=0.0)
                b_x = tl.where((o_i == j)[:, None], b_q * b_kj[None, :] * b_u[None, :], b_x)
            b_own += tl.where((o_i == j)[None, :], tl.sum(b_x, axis=1)[:, None], 0.0)
    rows = score_rows(i_c, o_b, i_h, H, BT)
    store_tile(A, rows, o_t, o_b < BT, (o_t < start) | (o_t >= start + BLOCK), b_a * scale)
    store_tile(A, rows, o_b, o_b < BT, o_b < BT, b_own * scale)


@triton.autotune([triton.Config(**c) for c in KERNELS["gated_fwd_o"]["configs"]], KERNELS["gated_fwd_o"]["keys"])
@triton.jit
def gated_fwd_o(
    q, v, gq, h, A, A2, v2, o, scale, chunks, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BT: tl.constexpr,
    BK: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Write BV columns of one chunk's output: scale h^T (exp(gq) q) + A v, and A2 v2 where these are given."""
    i_ch, i_v = tl.program_id(0).to(tl.int64), tl.program_id(1)
    i_c, i_h = i_ch // H, i_ch % H
    first, n = load_chunk(chunks, i_c)
    o_t, o_v = tl.arange(0, BT), i_v * BV + tl.arange(0, BV)
    m_t, m_v = o_t < n, o_v < V
    row = (first + o_t) * H + i_h
    b_o = tl.zeros([BT, BV], dtype=tl.float32)
    for i_k in range(tl.cdiv(K, BK)):
        o_k = i_k * BK + tl.arange(0, BK)
        b_q = load_tile(q, row * K, o_k, m_t, o_k < K)
        b_gq = load_tile(gq, row * K, o_k, m_t, o_k < K)
        b_q = (b_q * tl.exp(b_gq)).to(b_q.dtype)
        b_o += tl.dot(b_q, load_tile(h + i_ch * K * V, o_k * V, o_v, o_k < K, m_v))
    b_o = b_o * scale
    rows = score_rows(i_c, o_t, i_h, H, BT)
    b_o += tl.dot(load_tile(A, rows, o_t, m_t, m_t), load_tile(v, row * V, o_v, m_t, m_v))
    if A2 is not None:
        b_o += tl.dot(load_tile(A2, rows, o_t, m_t, m_t), load_tile(v2, row * V, o_v, m_t, m_v))
    store_tile(o, row * V, o_v, m_t, m_v, b_o)


@triton.autotune([triton.Config(**c) for c in KERNELS["outer_scores"]["configs"]], KERNELS["outer_scores"]["keys"])
@triton.jit
def outer_scores(
    x, y, A, scale, chunks, H: tl.constexpr, V: tl.constexpr, BT: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Write A_ij = scale x_i.y_j, i > j, the gradient of scores, for x and y [R, H, V]; zero elsewhere."""
    i_ch = tl.program_id(0).to(tl.int64)
    i_c, i_h = i_ch // H, i_ch % H
    first, n = load_chunk(chunks, i_c)
    o_t = tl.arange(0, BT)
    m_t = o_t < n
    row = (first + o_t) * H + i_h
    b_a = tl.zeros([BT, BT], dtype=tl.float32)
    for i_v in range(tl.cdiv(V, BV)):
        o_v = i_v * BV + tl.arange(0, BV)
        b_x = load_tile(x, row * V, o_v, m_t, o_v < V)
        b_a += tl.dot(b_x, load_tile(y, o_v, row * V, o_v < V, m_t))
    b_a = tl.where(o_t[:, None] > o_t[None, :], b_a * scale, 0.0)
    store_tile(A, score_rows(i_c, o_t, i_h, H, BT), o_t, o_t < BT, o_t < BT, b_a)


@triton.autotune(
    [triton.Config(**c) for c in KERNELS["gated_bwd_scores"]["configs"]], KERNELS["gated_bwd_scores"]["keys"]
)
@triton.jit
def gated_bwd_scores(
    q, k, gq, gk, dA, dq, dk, chunks, H: tl.constexpr, K: tl.constexpr, BT: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Write 16 rows and BK columns of the parts of dq and dk that come from the scores' gradient dA, i > j."""
    i_ch, i_b, i_k = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    i_c, i_h = i_ch // H, i_ch % H
    first, n = load_chunk(chunks, i_c)
    start = i_b * BLOCK
    o_t, o_i, o_k = tl.arange(0, BT), tl.arange(0, BLOCK), i_k * BK + tl.arange(0, BK)
    o_b = start + o_i
    m_b, m_k = o_b < n, o_k < K
    # A block past the last token has no rows; its reference is the last token's.
    ref = tl.minimum(start, n - 1)
    m_early, m_late = o_t < ref, (o_t >= start + BLOCK) & (o_t < n)
    row_b, row_t = (first + o_b) * H + i_h, (first + o_t) * H + i_h
    b_gq = load_tile(gq, row_b * K, o_k, m_b, m_k)
    b_gk = load_tile(gk, row_b * K, o_k, m_b, m_k)
    # These queries and the keys of earlier blocks.
    b_ref = tl.load(gq + ((first + ref) * H + i_h) * K + o_k, mask=m_k, other=0.0)
    b_x = load_tile(k, row_t * K, o_k, m_early, m_k)
    b_gx = load_tile(gk, row_t * K, o_k, m_early, m_k)
    b_x = (b_x * decay_between(b_ref[None, :], b_gx, m_early[:, None])).to(b_x.dtype)
    b_d = load_tile(dA, score_rows(i_c, o_b, i_h, H, BT), o_t, m_b, m_early)
    b_dq = tl.dot(b_d, b_x) * decay_between(b_gq, b_ref[None, :], m_b[:, None])
    # These keys and the queries of later blocks.
    end = tl.minimum(start + BLOCK, n) - 1
    b_ref = tl.load(gk + ((first + end) * H + i_h) * K + o_k, mask=m_k, other=0.0)
    b_x = load_tile(q, row_t * K, o_k, m_late, m_k)
    b_gx = load_tile(gq, row_t * K, o_k, m_late, m_k)
    b_x = (b_x * decay_between(b_gx, b_ref[None, :], m_late[:, None])).to(b_x.dtype)
    b_d = load_tile(dA, o_b, score_rows(i_c, o_t, i_h, H, BT), m_b, m_late)
    b_dk = tl.dot(b_d, b_x) * decay_between(b_ref[None, :], b_gk, m_b[:, None])
    # Pairs within the block.
    for j in range(BLOCK):
        # Rows and columns of dA past the last token are zero.
        t_j = tl.minimum(start + j, n - 1)
        at = ((first + t_j) * H + i_h) * K + o_k
        b_di = tl.load(dA + score_rows(i_c, o_b, i_h, H, BT) + start + j, mask=m_b, other=0.0).to(tl.float32)
        b_kj = tl.load(k + at, mask=m_k, other=0.0).to(tl.float32)
        b_gj = tl.load(gk + at, mask=m_k, other=0.0)
        b_dq += b_di[:, None] * b_kj[None, :] * decay_between(b_gq, b_gj[None, :], (m_b & (o_b > t_j))[:, None])
        b_dj = tl.load(dA + score_rows(i_c, start + j, i_h, H, BT) + o_b, mask=m_b, other=0.0).to(tl.float32)
        b_qj = tl.load(q + at, mask=m_k, other=0.0).to(tl.float32)
        b_gj = tl.load(gq + at, mask=m_k, other=0.0)
        b_dk += b_dj[:, None] * b_qj[None, :] * decay_between(b_gj[None, :], b_gk, (o_b < t_j)[:, None])
    store_tile(dq, row_b * K, o_k, m_b, m_k, b_dq)
    store_tile(dk, row_b * K, o_k, m_b, m_k, b_dk)


@triton.autotune([triton.Config(**c) for c in KERNELS["gated_bwd_dv"]["configs"]], KERNELS["gated_bwd_dv"]["keys"])
@triton.jit
def gated_bwd_dv(
    k, gk, do, dh, A, A2, do2, dv, chunks, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BT: tl.constexpr,
    BK: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Write dv = A^T do + dh^T (exp(G_last - G) k) for BV columns of one chunk, and A2^T do2 where these are given."""
    i_ch, i_v = tl.program_id(0).to(tl.int64), tl.program_id(1)
    i_c, i_h = i_ch // H, i_ch % H
    first, n = load_chunk(chunks, i_c)
    o_t, o_v = tl.arange(0, BT), i_v * BV + tl.arange(0, BV)
    m_t, m_v = o_t < n, o_v < V
    row = (first + o_t) * H + i_h
    b_dv = tl.zeros([BT, BV], dtype=tl.float32)
    for i_k in range(tl.cdiv(K, BK)):
        o_k = i_k * BK + tl.arange(0, BK)
        m_k = o_k < K
        b_last = tl.load(gk + ((first + n - 1) * H + i_h) * K + o_k, mask=m_k, other=0.0)
        b_gk = load_tile(gk, row * K, o_k, m_t, m_k)
        b_k = load_tile(k, row * K, o_k, m_t, m_k)
        b_k = (b_k * decay_between(b_last[None, :], b_gk, m_t[:, None])).to(b_k.dtype)
        b_dv += tl.dot(b_k, load_tile(dh + i_ch * K * V, o_k * V, o_v, m_k, m_v))
    rows = score_rows(i_c, o_t, i_h, H, BT)
    b_dv += tl.dot(load_tile(A, o_t, rows, m_t, m_t), load_tile(do, row * V, o_v, m_t, m_v))
    if A2 is not None:
        b_dv += tl.dot(load_tile(A2, o_t, rows, m_t, m_t), load_tile(do2, row * V, o_v, m_t, m_v))
    store_tile(dv, row * V, o_v, m_t, m_v, b_dv)


@triton.autotune([triton.Config(**c) for c in KERNELS["gated_bwd_dqkg"]["configs"]], KERNELS["gated_bwd_dqkg"]["keys"])
@triton.jit
def gated_bwd_dqkg(
    q, k, v, gq, gk, u, h, do, dh, xq, xk, dq, dk, dg, du, scale, chunks, H: tl.constexpr, K: tl.constexpr,
    V: tl.constexpr, BT: tl.constexpr, STRICT: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Write BK columns of one chunk's dq, dk and dg from do, dh and the scores' parts xq and xk (fp32).

    A token's own key and query are added last: scale do_i.v_i, not at all if STRICT; with u they count by u, and their
    part of its gradient is du [NC, H, K]. STRICT or u: a query meets the state before its own decay.
    """
    i_ch, i_k = tl.program_id(0).to(tl.int64), tl.program_id(1)
    i_c, i_h = i_ch // H, i_ch % H
    first, n = load_chunk(chunks, i_c)
    o_t, o_k = tl.arange(0, BT), i_k * BK + tl.arange(0, BK)
    m_t, m_k = o_t < n, o_k < K
    row = (first + o_t) * H + i_h
    b_dq = tl.zeros([BT, BK], dtype=tl.float32)
    b_dk = tl.zeros([BT, BK], dtype=tl.float32)
    b_own = tl.zeros([BT], dtype=tl.float32)
    b_state = tl.zeros([BK], dtype=tl.float32)
    for i_v in range(tl.cdiv(V, BV)):
        o_v = i_v * BV + tl.arange(0, BV)
        m_v = o_v < V
        b_v = load_tile(v, row * V, o_v, m_t, m_v)
        b_do = load_tile(do, row * V, o_v, m_t, m_v)
        b_h = load_tile(h + i_ch * K * V, o_v, o_k * V, m_v, m_k)
        b_dh = load_tile(dh + i_ch * K * V, o_v, o_k * V, m_v, m_k)
        b_dq += tl.dot(b_do, b_h)
        b_dk += tl.dot(b_v, b_dh)
        b_own += tl.sum(b_do.to(tl.float32) * b_v.to(tl.float32), axis=1)
        b_state += tl.sum(b_h.to(tl.float32) * b_dh.to(tl.float32), axis=0)
    b_last = tl.load(gk + ((first + n - 1) * H + i_h) * K + o_k, mask=m_k, other=0.0)
    b_gq = load_tile(gq, row * K, o_k, m_t, m_k)
    b_gk = load_tile(gk, row * K, o_k, m_t, m_k)
    b_q = load_tile(q, row * K, o_k, m_t, m_k).to(tl.float32)
    b_k = load_tile(k, row * K, o_k, m_t, m_k).to(tl.float32)
    b_dq = b_dq * tl.exp(b_gq) * scale
    b_dk = b_dk * decay_between(b_last[None, :], b_gk, m_t[:, None])
    # Paths into the chunk reach all tokens up to the query's, paths out of it all tokens after the key's.
    # The select keeps a product from being fused into the difference, which would be left with its rounding error.
    b_early = tl.where(m_t[:, None], b_k * b_dk, 0.0)
    b_dg = tl.cumsum(b_early, axis=0) - b_early + (tl.exp(b_last) * b_state)[None, :]
    b_xq = load_tile(xq, row * K, o_k, m_t, m_k)
    b_xk = load_tile(xk, row * K, o_k, m_t, m_k)
    b_late = tl.where(m_t[:, None], b_q * (b_dq + b_xq), 0.0)
    b_dg += tl.cumsum(b_late - b_k * b_xk, axis=0, reverse=True)
    if STRICT or u is not None:
        b_dg -= b_late
    store_tile(dg, row * K, o_k, m_t, m_k, b_dg)
    b_dq += b_xq
    b_dk += b_xk
    if not STRICT:
        b_own = b_own * scale
        b_own_k, b_own_q = b_own[:, None] * b_k, b_own[:, None] * b_q
        if u is not None:
            tl.store(du + i_ch * K + o_k, tl.sum(b_own_k * b_q, axis=0), mask=m_k)
            b_u = tl.load(u + i_h * K + o_k, mask=m_k, other=0.0)
            b_own_k, b_own_q = b_own_k * b_u[None, :], b_own_q * b_u[None, :]
        b_dq += b_own_k
        b_dk += b_own_q
    store_tile(dq, row * K, o_k, m_t, m_k, b_dq)
    store_tile(dk, row * K, o_k, m_t, m_k, b_dk)


def score_matrix(q, chunks, BT, dtype):
    """Return an empty matrix of each chunk's tokens by its tokens, [NC, BT, H, BT]."""
    return q.new_empty(len(chunks), BT, q.shape[2], BT, dtype=dtype)


def scores(q, k, gq, gk, u, scale, chunks, dtype, is_strict=False, BT=64):
    """Return the matrix A of `gated_scores` for q, k, gq, gk [B, T, H, K]."""
    A = score_matrix(q, chunks, BT, dtype)
    H, K = q.shape[2:]
    gated_scores[(len(chunks) * H, BT // BLOCK.value)](
        q, k, gq, gk, u, A, scale, chunks, H=H, K=K, BT=BT, STRICT=int(is_strict or u is not None)
    )
    return A


def scores_backward(q, k, gq, gk, do, v, scale, chunks, BT=64):
    """Return the parts of dq and dk, fp32, that come through scores whose output is A v, without the diagonal."""
    import torch

    H, K, V = q.shape[2], q.shape[3], v.shape[3]
    dA = score_matrix(q, chunks, BT, q.dtype)
    outer_scores[(len(chunks) * H,)](do, v, dA, scale, chunks, H=H, V=V, BT=BT)
    dq, dk = (torch.empty_like(gk) for _ in range(2))
    gated_bwd_scores[lambda meta: (len(chunks) * H, BT // BLOCK.value, triton.cdiv(K, meta["BK"]))](
        q, k, gq, gk, dA, dq, dk, chunks, H=H, K=K, BT=BT
    )
    return dq, dk


def gates(gk, chunks, is_exclusive):
    """Return the sums (GQ, G) [B, T, H, K] that a query and a key meet; exclusive: GQ is without the token's own."""
    G = local_cumsum(gk.flatten(0, 1), chunks).view(gk.shape)
    if is_exclusive:
        return G - gk, G
    return G, G


def forward(q, k, v, gk, u, h0, scale, sequences, chunks, BT=64):
    """Return ((o, ht), tensors to keep) for q, k, gk [B, T, H, K], v [B, T, H, V] and u [H, K] or None."""
    import torch

    H, K, V, NC = q.shape[2], q.shape[3], v.shape[3], len(chunks)
    GQ, G = gates(gk, chunks, u is not None)
    h, o = q.new_empty(NC, H, K, V), torch.empty_like(v)
    ht = q.new_empty(len(sequences), H, K, V, dtype=torch.float32)
    chunk_fwd_h[lambda meta: (len(sequences) * H, triton.cdiv(K, meta["BK"]), triton.cdiv(V, meta["BV"]))](
        k, v, None, G, h, h0, ht, sequences, H=H, K=K, V=V, BT=BT
    )
    A = scores(q, k, GQ, G, u, scale, chunks, q.dtype)
    gated_fwd_o[lambda meta: (NC * H, triton.cdiv(V, meta["BV"]))](
        q, v, GQ, h, A, None, None, o, scale, chunks, H=H, K=K, V=V, BT=BT
    )
    return (o, ht), (q, k, v, GQ, G, u, h, A)


def backward(kept, do, dht, scale, sequences, chunks, BT=64):
    """Return the gradients of q, k, v, gk, u and h0."""
    import torch

    q, k, v, GQ, G, u, h, A = kept
    H, K, V, NC = q.shape[2], q.shape[3], v.shape[3], len(chunks)
    dh, dh0 = torch.empty_like(h), torch.empty_like(dht)
    chunk_bwd_dh[lambda meta: (len(sequences) * H, triton.cdiv(K, meta["BK"]), triton.cdiv(V, meta["BV"]))](
        q, do, None, GQ, G, dh, dht, dh0, scale, sequences, H=H, K=K, V=V, BT=BT
    )
    dv = torch.empty_like(v)
    gated_bwd_dv[lambda meta: (NC * H, triton.cdiv(V, meta["BV"]))](
        k, G, do, dh, A, None, None, dv, chunks, H=H, K=K, V=V, BT=BT
    )
    xq, xk = scores_backward(q, k, GQ, G, do, v, scale, chunks)
    dq, dk, dg = torch.empty_like(q), torch.empty_like(k), torch.empty_like(G)
    du = None if u is None else u.new_empty(NC, H, K)
    gated_bwd_dqkg[lambda meta: (NC * H, triton.cdiv(K, meta["BK"]))](
        q, k, v, GQ, G, u, h, do, dh, xq, xk, dq, dk, dg, du, scale, chunks, H=H, K=K, V=V, BT=BT, STRICT=0
    )
    return dq, dk, dv, dg, None if du is None else du.sum(0), dh0


def attention(q, k, v, gk, u, h0, scale, sequences, chunks):
    """Return (o, ht) in chunks of 64 tokens, with gradients."""
    options = {"scale": scale, "sequences": sequences, "chunks": chunks}
    return differentiable(forward, backward)(options, q, k, v, gk, u, h0)
