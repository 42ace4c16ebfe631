"""The hierarchically gated recurrence: one decay a channel, no outer product (Qin et al. 2023, arXiv:2311.04823).

    h_t = exp(g_t) h_{t-1} + x_t        o_t = h_t

x and o [B, T, D] are fp16, bf16 or fp32; g [B, T, D], fp32, is the natural logarithm of the decay (the paper's forget
gate, at most 0), and x is the input that the complement of that gate has already scaled; h0 and ht [N, D], fp32, are the
states before the first and after the last token of each of the N sequences: the B of the batch, or those that
`cu_seqlens` [N + 1] bounds in a batch of one.

In chunks, each chunk runs the recurrence from zero, all at once; then one program a sequence adds the state before the
chunk, h, whose share in token t is exp(G_t) h for the sum G of g within the chunk. Backward is the same recurrence over
the reversed tokens, dh_t = do_t + exp(g_{t+1}) dh_{t+1}, with dx_t = dh_t and dg_t = dh_t exp(g_t) h_{t-1}.
"""

import triton
import triton.language as tl

from ._host import check, differentiable, layout, walk
from ._tiles import load_chunk, load_sequence, load_tile, store_tile

OPERATOR = "hgrn"

SHAPES = [
    {"B": 1, "T": 2048, "H": 4, "K": 64, "V": 64},
    {"B": 1, "T": 8192, "H": 4, "K": 128, "V": 128},
    {"B": 1, "T": 8192, "H": 4, "K": 256, "V": 256},
    {"B": 1, "T": 65536, "H": 4, "K": 128, "V": 256},
]

# fmt: off
KERNELS = {
    "hgrn_chunk_scan": {
        "form": "chunk",
        "launch": {
            "args": {
                "x": {"dtype": "{dtype}", "align": 16}, "g": {"dtype": "fp32", "align": 16},
                "h": {"dtype": "fp32", "align": 16}, "G": {"dtype": "fp32", "align": 16},
                "chunks": {"dtype": "i32", "align": 16}, "D": {"constexpr": "{V}"}, "REVERSED": {"constexpr": 0},
            },
            "omitted": ["BD"],
        },
        "configs": [
            {"kwargs": {"BD": 64}, "num_warps": 1, "num_stages": 2},
            {"kwargs": {"BD": 32}, "num_warps": 1, "num_stages": 2},
            {"kwargs": {"BD": 128}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {"BD": 256}, "num_warps": 4, "num_stages": 2},
        ],
        "keys": ["D", "REVERSED"],
    },
    "hgrn_chunk_carry": {
        "form": "chunk",
        "launch": {
            "args": {
                "x": {"dtype": "fp32", "align": 16}, "G": {"dtype": "fp32", "align": 16},
                "h": {"dtype": "fp32", "align": 16}, "h0": {"dtype": "fp32", "align": 16}, "ht": {"dtype": "fp32", "align": 16},
                "sequences": {"dtype": "i32", "align": 16}, "D": {"constexpr": "{V}"}, "BT": {"constexpr": 64},
                "REVERSED": {"constexpr": 0},
            },
            "omitted": ["BD"],
        },
        "configs": [
            {"kwargs": {"BD": 32}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BD": 16}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {"BD": 64}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BD": 64}, "num_warps": 8, "num_stages": 3},
        ],
        "keys": ["D", "BT", "REVERSED"],
    },
    "hgrn_recurrent": {
        "form": "fused_recurrent",
        "launch": {
            "args": {
                "x": {"dtype": "{dtype}", "align": 16}, "g": {"dtype": "fp32", "align": 16},
                "h": {"dtype": "fp32", "align": 16}, "h0": {"dtype": "fp32", "align": 16},
                "ht": {"dtype": "fp32", "align": 16}, "sequences": {"dtype": "i32", "align": 16},
                "D": {"constexpr": "{V}"}, "REVERSED": {"constexpr": 0},
            },
            "omitted": ["BD"],
        },
        "configs": [
            {"kwargs": {"BD": 32}, "num_warps": 1, "num_stages": 2},
            {"kwargs": {"BD": 64}, "num_warps": 1, "num_stages": 2},
            {"kwargs": {"BD": 128}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {"BD": 128}, "num_warps": 4, "num_stages": 2},
        ],
        "keys": ["D", "REVERSED"],
    },
}
# fmt: on


@triton.jit
def ordered(t, n, REVERSED: tl.constexpr):
    """Return the place of the t-th of n tokens in the order of the recurrence."""
    if REVERSED:
        place = n - 1 - t
    else:
        place = t
    return place


@triton.autotune(
    [triton.Config(**c) for c in KERNELS["hgrn_chunk_scan"]["configs"]], KERNELS["hgrn_chunk_scan"]["keys"]
)
@triton.jit
def hgrn_chunk_scan(x, g, h, G, chunks, D: tl.constexpr, REVERSED: tl.constexpr, BD: tl.constexpr):
    """Write h [R, D] of one chunk as if it began at zero, and the sums G of g from the chunk's start."""
    i_c, i_d = tl.program_id(0).to(tl.int64), tl.program_id(1)
    o_d = i_d * BD + tl.arange(0, BD)
    m_d = o_d < D
    first, n = load_chunk(chunks, i_c)
    b_h = tl.zeros([BD], dtype=tl.float32)
    b_sum = tl.zeros([BD], dtype=tl.float32)
    for t in range(n):
        at = (first + ordered(t, n, REVERSED)) * D + o_d
        b_g = tl.load(g + at, mask=m_d, other=0.0)
        b_h = b_h * tl.exp(b_g) + tl.load(x + at, mask=m_d, other=0.0).to(tl.float32)
        b_sum += b_g
        tl.store(h + at, b_h, mask=m_d)
        tl.store(G + at, b_sum, mask=m_d)


@triton.autotune(
    [triton.Config(**c) for c in KERNELS["hgrn_chunk_carry"]["configs"]], KERNELS["hgrn_chunk_carry"]["keys"]
)
@triton.jit
def hgrn_chunk_carry(
    x, G, h, h0, ht, sequences, D: tl.constexpr, BT: tl.constexpr, REVERSED: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """Write h [R, D]: x, the recurrences of the chunks from zero, and the share of the state before each chunk."""
    i_n, i_d = tl.program_id(0).to(tl.int64), tl.program_id(1)
    o_t, o_d = tl.arange(0, BT), i_d * BD + tl.arange(0, BD)
    m_d = o_d < D
    first, T, _ = load_sequence(sequences, i_n)
    b_state = tl.zeros([BD], dtype=tl.float32)
    if h0 is not None:
        b_state += tl.load(h0 + i_n * D + o_d, mask=m_d, other=0.0).to(tl.float32)
    NT = tl.cdiv(T, BT)
    for i in range(NT):
        i_t = ordered(i, NT, REVERSED)
        n = tl.minimum(T - i_t * BT, BT)
        m_t = o_t < n
        rows = (first + i_t * BT + o_t) * D
        b_h = load_tile(x, rows, o_d, m_t, m_d)
        b_h += tl.exp(load_tile(G, rows, o_d, m_t, m_d)) * b_state[None, :]
        store_tile(h, rows, o_d, m_t, m_d, b_h)
        is_last = (o_t == ordered(n - 1, n, REVERSED))[:, None]
        b_state = tl.sum(tl.where(is_last, b_h, 0.0), axis=0)
    tl.store(ht + i_n * D + o_d, b_state, mask=m_d)


@triton.autotune(
    [triton.Config(**c) for c in KERNELS["hgrn_recurrent"]["configs"]], KERNELS["hgrn_recurrent"]["keys"]
)
@triton.jit
def hgrn_recurrent(x, g, h, h0, ht, sequences, D: tl.constexpr, REVERSED: tl.constexpr, BD: tl.constexpr):
    """Write h [R, D] token by token, and the last state."""
    i_n, i_d = tl.program_id(0).to(tl.int64), tl.program_id(1)
    o_d = i_d * BD + tl.arange(0, BD)
    m_d = o_d < D
    first, T, _ = load_sequence(sequences, i_n)
    b_h = tl.zeros([BD], dtype=tl.float32)
    if h0 is not None:
        b_h += tl.load(h0 + i_n * D + o_d, mask=m_d, other=0.0).to(tl.float32)
    for t in range(T):
        at = (first + ordered(t, T, REVERSED)) * D + o_d
        b_h = b_h * tl.exp(tl.load(g + at, mask=m_d, other=0.0)) + tl.load(x + at, mask=m_d, other=0.0).to(tl.float32)
        tl.store(h + at, b_h, mask=m_d)
    tl.store(ht + i_n * D + o_d, b_h, mask=m_d)


def scan_in_chunks(x, g, h0, sequences, chunks, is_reversed, BT=64):
    """Return (h [B, T, D], last states [N, D]), fp32, of the recurrence; reversed: from the last token on."""
    import torch

    parts, h, G, D = torch.empty_like(g), torch.empty_like(g), torch.empty_like(g), g.shape[-1]
    ht = g.new_empty(len(sequences), D)
    hgrn_chunk_scan[lambda meta: (len(chunks), triton.cdiv(D, meta["BD"]))](
        x, g, parts, G, chunks, D=D, REVERSED=int(is_reversed)
    )
    hgrn_chunk_carry[lambda meta: (len(sequences), triton.cdiv(D, meta["BD"]))](
        parts, G, h, h0, ht, sequences, D=D, BT=BT, REVERSED=int(is_reversed)
    )
    return h, ht


def scan_by_token(x, g, h0, sequences, chunks, is_reversed):
    """Return (h [B, T, D], last states [N, D]), fp32, of the recurrence; reversed: from the last token on."""
    import torch

    h, D = torch.empty_like(g), g.shape[-1]
    ht = g.new_empty(len(sequences), D)
    hgrn_recurrent[lambda meta: (len(sequences), triton.cdiv(D, meta["BD"]))](
        x, g, h, h0, ht, sequences, D=D, REVERSED=int(is_reversed)
    )
    return h, ht


def forward(x, g, h0, scan, sequences, chunks):
    """Return ((o, ht), tensors to keep)."""
    h, ht = scan(x, g, h0, sequences, chunks, False)
    return (h.to(x.dtype), ht), (x, g, h, h0)


def backward(kept, do, dht, scan, sequences, chunks):
    """Return the gradients of x, g and h0."""
    x, g, h, h0 = kept
    D = g.shape[-1]
    firsts, ends = sequences[:, 0].long(), (sequences[:, 0] + sequences[:, 1] - 1).long()
    # The decay on the way back to a token is that of the token after it; into the last token there is none.
    later = g.view(-1, D).roll(-1, 0).index_fill(0, ends, 0.0).view(g.shape)
    dh, _ = scan(do, later, dht, sequences, chunks, True)
    before = h.view(-1, D).roll(1, 0)
    if h0 is None:
        before = before.index_fill(0, firsts, 0.0)
    else:
        before = before.index_copy(0, firsts, h0)
    decayed = dh * g.exp()
    return dh.to(x.dtype), decayed * before.view(g.shape), decayed.view(-1, D)[firsts]


def inputs(B, T, H, K, V, dtype, device, seed=0):
    """Return random arguments of the host functions below, with H x V channels; decays from near 0 to near 1."""
    import torch

    torch.manual_seed(seed)
    g = torch.nn.functional.logsigmoid(4 * torch.randn(B, T, H * V, device=device) + 4)
    x = ((1 - g.exp()) * torch.randn(B, T, H * V, device=device)).to(dtype)
    return {"x": x, "g": g, "h0": torch.randn(B, H * V, device=device)}


def chunk(x, g, h0=None, cu_seqlens=None):
    """Return (o, ht) in chunks of 64 tokens, with gradients."""
    return run(scan_in_chunks, x, g, h0, cu_seqlens)


def fused_recurrent(x, g, h0=None, cu_seqlens=None):
    """Return (o, ht) token by token, with gradients."""
    return run(scan_by_token, x, g, h0, cu_seqlens)


def run(scan, x, g, h0, cu_seqlens):
    """Return (o, ht) by one of the scans; raise ValueError if the arguments do not fit."""
    if x.dim() != 3:
        raise ValueError("x and g are [B, T, D]")
    B, T, D = x.shape
    N = B if cu_seqlens is None else len(cu_seqlens) - 1
    check(x=(x, (B, T, D)), g=(g, (B, T, D)), h0=(h0, (N, D)))
    sequences, chunks = layout(B, T, cu_seqlens, 64, x.device)
    options = {"scan": scan, "sequences": sequences, "chunks": chunks}
    return differentiable(forward, backward)(options, x, g, h0)


def reference(x, g, h0=None, cu_seqlens=None):
    """Return (o, ht) by the recurrence in float64."""
    x, g = x.double(), g.double()
    N = x.shape[0] if cu_seqlens is None else len(cu_seqlens) - 1
    state = x.new_zeros(N, x.shape[-1]) if h0 is None else h0.double()

    def step(h, t):
        h = h * g[:, t].exp() + x[:, t]
        return h, h

    return walk(step, state, x.shape[1], cu_seqlens)
