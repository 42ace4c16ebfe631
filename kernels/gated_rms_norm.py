"""RMS norm with a gate, fused: the last step of a layer of gated linear attention (Yang et al. 2024, arXiv:2312.06635).

    o = w x r swish(g)        r = (mean(x^2) + eps)^-1/2        swish(g) = g sigmoid(g)

(Zhang and Sennrich 2019, arXiv:1910.07467, for the norm.) x, g and o [B, T, H, V] are fp16, bf16 or fp32; w [V], fp32,
is the weight. The mean is over the V channels of a head; r [B T H], fp32. Backward, with a = do w swish(g):

    dx = r (a - x r^2 mean(a x))        dg = do w x r swish'(g)        dw = sum over the rows of do x r swish(g)
"""

import triton
import triton.language as tl

from ._host import check, differentiable
from ._tiles import load_tile, store_tile

OPERATOR = "gated_rms_norm"

SHAPES = [
    {"B": 1, "T": 2048, "H": 4, "V": 64},
    {"B": 1, "T": 8192, "H": 4, "V": 128},
    {"B": 1, "T": 8192, "H": 4, "V": 256},
    {"B": 1, "T": 65536, "H": 4, "V": 256},
]

# fmt: off
KERNELS = {
    "gated_norm_fwd": {
        "form": "fused",
        "launch": {
            "args": {
                "x": {"dtype": "{dtype}", "align": 16}, "g": {"dtype": "{dtype}", "align": 16},
                "w": {"dtype": "fp32", "align": 16}, "o": {"dtype": "{dtype}", "align": 16},
                "r": {"dtype": "fp32", "align": 16}, "eps": {"float": 1e-5}, "R": {"int": "{T}"},
                "V": {"constexpr": "{V}"}, "BV": {"constexpr": "{V}"},
            },
            "omitted": ["BT"],
        },
        "configs": [
            {"kwargs": {"BT": 16}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BT": 8}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {"BT": 32}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BT": 32}, "num_warps": 8, "num_stages": 2},
        ],
        "keys": ["V", "BV"],
    },
    "gated_norm_bwd": {
        "form": "fused",
        "launch": {
            "args": {
                "x": {"dtype": "{dtype}", "align": 16}, "g": {"dtype": "{dtype}", "align": 16},
                "w": {"dtype": "fp32", "align": 16}, "r": {"dtype": "fp32", "align": 16},
                "do": {"dtype": "{dtype}", "align": 16}, "dx": {"dtype": "{dtype}", "align": 16},
                "dg": {"dtype": "{dtype}", "align": 16}, "dw": {"dtype": "fp32", "align": 16}, "R": {"int": "{T}"},
                "V": {"constexpr": "{V}"}, "BV": {"constexpr": "{V}"}, "ROWS": {"constexpr": 64},
            },
            "omitted": ["BT"],
        },
        "configs": [
            {"kwargs": {"BT": 16}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BT": 8}, "num_warps": 2, "num_stages": 2},
            {"kwargs": {"BT": 32}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BT": 32}, "num_warps": 8, "num_stages": 2},
        ],
        "keys": ["V", "BV", "ROWS"],
    },
}
# fmt: on


@triton.autotune([triton.Config(**c) for c in KERNELS["gated_norm_fwd"]["configs"]], KERNELS["gated_norm_fwd"]["keys"])
@triton.jit
def gated_norm_fwd(x, g, w, o, r, eps, R, V: tl.constexpr, BV: tl.constexpr, BT: tl.constexpr):
    """Write BT rows of the output, and their r."""
    i_r = tl.program_id(0).to(tl.int64)
    o_t, o_v = i_r * BT + tl.arange(0, BT), tl.arange(0, BV)
    m_t, m_v = o_t < R, o_v < V
    b_x = load_tile(x, o_t * V, o_v, m_t, m_v).to(tl.float32)
    b_g = load_tile(g, o_t * V, o_v, m_t, m_v).to(tl.float32)
    b_w = tl.load(w + o_v, mask=m_v, other=0.0)
    b_r = 1.0 / tl.sqrt(tl.sum(b_x * b_x, axis=1) / V + eps)
    b_o = b_x * b_r[:, None] * b_w[None, :] * b_g * tl.sigmoid(b_g)
    store_tile(o, o_t * V, o_v, m_t, m_v, b_o)
    tl.store(r + o_t, b_r, mask=m_t)


@triton.autotune([triton.Config(**c) for c in KERNELS["gated_norm_bwd"]["configs"]], KERNELS["gated_norm_bwd"]["keys"])
@triton.jit
def gated_norm_bwd(
    x, g, w, r, do, dx, dg, dw, R, V: tl.constexpr, BV: tl.constexpr, ROWS: tl.constexpr, BT: tl.constexpr,
):  # fmt: skip
    """Write dx and dg of ROWS rows, BT at a time, and their part of dw [R / ROWS, V]."""
    i_r = tl.program_id(0).to(tl.int64)
    o_v = tl.arange(0, BV)
    m_v = o_v < V
    b_w = tl.load(w + o_v, mask=m_v, other=0.0)
    b_dw = tl.zeros([BV], dtype=tl.float32)
    for i_t in range(ROWS // BT):
        o_t = i_r * ROWS + i_t * BT + tl.arange(0, BT)
        m_t = o_t < R
        b_x = load_tile(x, o_t * V, o_v, m_t, m_v).to(tl.float32)
        b_g = load_tile(g, o_t * V, o_v, m_t, m_v).to(tl.float32)
        b_do = load_tile(do, o_t * V, o_v, m_t, m_v).to(tl.float32)
        b_r = tl.load(r + o_t, mask=m_t, other=0.0)[:, None]
        b_sigmoid = tl.sigmoid(b_g)
        b_swish = b_g * b_sigmoid
        b_a = b_do * b_swish * b_w[None, :]
        b_mean = tl.sum(b_a * b_x, axis=1)[:, None] / V
        b_norm = b_x * b_r
        store_tile(dx, o_t * V, o_v, m_t, m_v, b_r * (b_a - b_norm * b_r * b_mean))
        b_slope = b_sigmoid + b_swish * (1.0 - b_sigmoid)
        store_tile(dg, o_t * V, o_v, m_t, m_v, b_do * b_norm * b_w[None, :] * b_slope)
        b_dw += tl.sum(b_do * b_norm * b_swish, axis=0)
    tl.store(dw + i_r * V + o_v, b_dw, mask=m_v)


def forward(x, g, w, eps):
    """Return ((o,), tensors to keep)."""
    import torch

    V, R = x.shape[-1], x.numel() // x.shape[-1]
    o, r = torch.empty_like(x), w.new_empty(R)
    gated_norm_fwd[lambda meta: (triton.cdiv(R, meta["BT"]),)](
        x, g, w, o, r, eps, R, V=V, BV=triton.next_power_of_2(V)
    )
    return (o,), (x, g, w, r)


def backward(kept, do, eps, ROWS=64):
    """Return the gradients of x, g and w."""
    import torch

    x, g, w, r = kept
    V, R = x.shape[-1], x.numel() // x.shape[-1]
    parts = triton.cdiv(R, ROWS)
    dx, dg, dw = torch.empty_like(x), torch.empty_like(g), w.new_empty(parts, V)
    gated_norm_bwd[(parts,)](
        x, g, w, r, do, dx, dg, dw, R, V=V, BV=triton.next_power_of_2(V), ROWS=ROWS
    )
    return dx, dg, dw.sum(0)


def inputs(B, T, H, K, V, dtype, device, seed=0):
    """Return random arguments of the host functions below; rows from near 0 to far from it."""
    import torch

    torch.manual_seed(seed)
    size = torch.exp(2 * torch.randn(B, T, H, 1, device=device))
    x = (size * torch.randn(B, T, H, V, device=device)).to(dtype)
    g = torch.randn(B, T, H, V, device=device).to(dtype)
    return {"x": x, "g": g, "w": 1 + torch.randn(V, device=device) / 2, "eps": 1e-5}


def fused(x, g, w, eps=1e-5):
    """Return (o,), with gradients."""
    check(x=(x, x.shape), g=(g, x.shape), w=(w, x.shape[-1:]))
    return differentiable(forward, backward)({"eps": eps}, x, g, w)


def reference(x, g, w, eps=1e-5):
    """Return (o,) by the definition in float64."""
    x, g, w = (each.double() for each in (x, g, w))
    r = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
    return (w * x * r * g * g.sigmoid(),)
