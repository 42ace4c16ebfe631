"""Kernels as people write them. Never run: flacheck reads them."""

import triton
import triton.language as tl


@triton.jit
def attention(
    q,
    k,
    v,
    o,
    lse,
    seqlen,
    scale,
    stride_m,
    stride_n,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    start = tl.program_id(0)
    head = tl.program_id(1)
    rows = start * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.arange(0, BLOCK_N)
    feature = tl.arange(0, HEAD)
    base = head.to(tl.int64) * seqlen * stride_m
    queries = tl.load(
        q + base + rows[:, None] * stride_m + feature[None, :],
        mask=rows[:, None] < seqlen,
        other=0.0,
    )
    top = tl.full([BLOCK_M], float("-inf"), dtype=tl.float32)
    total = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD], dtype=tl.float32)
    end = seqlen
    if CAUSAL:
        end = tl.minimum(seqlen, (start + 1) * BLOCK_M)
    for at in range(0, end, BLOCK_N):
        inside = (at + columns) < seqlen
        keys = tl.load(
            k + base + (at + columns)[None, :] * stride_n + feature[:, None],
            mask=inside[None, :],
            other=0.0,
        )
        score = tl.dot(queries, keys) * scale
        if CAUSAL:
            score = tl.where(rows[:, None] >= (at + columns)[None, :], score, float("-inf"))
        score = tl.where(inside[None, :], score, float("-inf"))
        peak = tl.maximum(top, tl.max(score, 1))
        weight = tl.exp(score - peak[:, None])
        decay = tl.exp(top - peak)
        total = total * decay + tl.sum(weight, 1)
        values = tl.load(
            v + base + (at + columns)[:, None] * stride_n + feature[None, :],
            mask=inside[:, None],
            other=0.0,
        )
        acc = acc * decay[:, None] + tl.dot(weight.to(values.dtype), values)
        top = peak
    acc = acc / total[:, None]
    tl.store(lse + head * seqlen + rows, top + tl.log(total), mask=rows < seqlen)
    tl.store(
        o + base + rows[:, None] * stride_m + feature[None, :],
        acc.to(o.dtype.element_ty),
        mask=rows[:, None] < seqlen,
    )


@triton.jit
def grouped_matmul(
    a,
    b,
    c,
    bias,
    M,
    N,
    K,
    stride_a,
    stride_b,
    stride_c,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
    ACTIVATION: tl.constexpr,
):
    pid = tl.program_id(0)
    blocks_m = tl.cdiv(M, BLOCK_M)
    blocks_n = tl.cdiv(N, BLOCK_N)
    in_group = GROUP * blocks_n
    group = pid // in_group
    first = group * GROUP
    size = tl.minimum(blocks_m - first, GROUP)
    at_m = first + (pid % size)
    at_n = (pid % in_group) // size
    rows = (at_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    columns = (at_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    inner = tl.arange(0, BLOCK_K)
    a_ptrs = a + rows[:, None] * stride_a + inner[None, :]
    b_ptrs = b + inner[:, None] * stride_b + columns[None, :]
    acc = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for at in range(tl.cdiv(K, BLOCK_K)):
        left = tl.load(a_ptrs, mask=inner[None, :] < K - at * BLOCK_K, other=0.0)
        right = tl.load(b_ptrs, mask=inner[:, None] < K - at * BLOCK_K, other=0.0)
        acc += tl.dot(left, right)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * stride_b
    acc += tl.load(bias + columns)[None, :].to(tl.float32)
    if ACTIVATION == "silu":
        acc = acc * tl.sigmoid(acc)
    rows = at_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = at_n * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * stride_c + columns[None, :], acc.to(c.dtype.element_ty), mask=mask)


@triton.jit
def block_pointer_matmul(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    at_m = tl.program_id(0)
    at_n = tl.program_id(1)
    left = tl.make_block_ptr(a, (M, K), (K, 1), (at_m * BLOCK_M, 0), (BLOCK_M, BLOCK_K), (1, 0))
    right = tl.make_block_ptr(b, (K, N), (N, 1), (0, at_n * BLOCK_N), (BLOCK_K, BLOCK_N), (1, 0))
    acc = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for _ in range(tl.cdiv(K, BLOCK_K)):
        acc = tl.dot(
            tl.load(left, boundary_check=(0, 1)), tl.load(right, boundary_check=(0, 1)), acc
        )
        left = tl.advance(left, (0, BLOCK_K))
        right = tl.advance(right, (BLOCK_K, 0))
    out = tl.make_block_ptr(
        c, (M, N), (N, 1), (at_m * BLOCK_M, at_n * BLOCK_N), (BLOCK_M, BLOCK_N), (1, 0)
    )
    tl.store(out, acc.to(c.dtype.element_ty), boundary_check=(0, 1))


@triton.jit
def descriptor_matmul(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    at_m = tl.program_id(0) * BLOCK_M
    at_n = tl.program_id(1) * BLOCK_N
    left = tl.make_tensor_descriptor(
        a, shape=[M, K], strides=[K, 1], block_shape=[BLOCK_M, BLOCK_K]
    )
    right = tl.make_tensor_descriptor(
        b, shape=[N, K], strides=[K, 1], block_shape=[BLOCK_N, BLOCK_K]
    )
    out = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[BLOCK_M, BLOCK_N])
    acc = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for at in range(0, K, BLOCK_K):
        one = left.load([at_m, at])
        two = right.load([at_n, at])
        acc = tl.dot(one, two.T, acc)
    out.store([at_m, at_n], acc.to(tl.bfloat16))


@triton.jit
def layer_norm_backward(x, dy, w, dx, dw, db, mean, rstd, locks, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < N
    value = tl.load(x + row * N + columns, mask=mask, other=0.0).to(tl.float32)
    grad = tl.load(dy + row * N + columns, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(w + columns, mask=mask, other=0.0).to(tl.float32)
    middle = tl.load(mean + row)
    scale = tl.load(rstd + row)
    normal = tl.where(mask, (value - middle) * scale, 0.0)
    weighted = tl.where(mask, weight * grad, 0.0)
    one = tl.sum(normal * weighted, axis=0) / N
    two = tl.sum(weighted, axis=0) / N
    out = (weighted - (normal * one + two)) * scale
    tl.store(dx + row * N + columns, out.to(dx.dtype.element_ty), mask=mask)
    tl.atomic_add(dw + columns, (grad * normal).to(dw.dtype.element_ty), mask=mask)
    tl.atomic_add(db + columns, grad.to(db.dtype.element_ty), mask=mask)


@triton.jit
def softmax(x, y, columns, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + at, mask=at < columns, other=-float("inf")).to(tl.float32)
    value = value - tl.max(value, axis=0)
    top = tl.exp(value)
    tl.store(
        y + row * stride + at, (top / tl.sum(top, axis=0)).to(y.dtype.element_ty), mask=at < columns
    )


@triton.jit
def running_state(x, gate, y, last, T, D: tl.constexpr, BLOCK: tl.constexpr):
    head = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    feature = tl.arange(0, D)
    state = 0
    carried = tl.zeros([D], dtype=tl.float32)
    for t in range(0, T, BLOCK):
        value = tl.load(x + (head * T + t + at)[:, None] * D + feature[None, :])
        g = tl.load(gate + head * T + t + at)
        local = tl.cumsum(g, axis=0)
        weight = tl.exp(local)[:, None] * value
        carried = carried * tl.exp(tl.sum(g, 0)) + tl.sum(weight, 0)
        state = tl.sum(carried, 0)
        tl.store(y + (head * T + t + at)[:, None] * D + feature[None, :], weight + carried[None, :])
    tl.store(last + head, state)


@triton.jit
def top_values(x, values, positions, N, BLOCK: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    score = tl.load(x + row * N + at, mask=at < N, other=float("-inf"))
    ordered = tl.sort(score, descending=True)
    best, where = tl.max(score, axis=0, return_indices=True)
    kept = tl.where(at < K, ordered, 0.0)
    tl.store(values + row * BLOCK + at, kept)
    tl.store(positions + row, where)
    tl.store(values + row * BLOCK, best)


@triton.jit
def count(x, bins, N, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < N
    value = tl.load(x + at, mask=mask, other=0)
    found = tl.histogram(value, BINS)
    slot = tl.arange(0, BINS)
    before = tl.load(bins + slot)
    tl.atomic_add(bins + slot, found)
    tl.store(bins + BINS + slot, before + found)


@triton.jit
def packed_exp(x, y, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < N
    value = tl.load(x + at, mask=mask, other=0.0)
    scaled = value * 1.4426950408889634
    low = tl.inline_asm_elementwise(
        "ex2.approx.ftz.bf16 $0, $1;",
        "=h,h",
        [scaled.to(tl.bfloat16)],
        dtype=tl.bfloat16,
        is_pure=True,
        pack=1,
    )
    total = tl.sum(low.to(tl.float32), axis=0)
    tl.store(y + at, low / total, mask=mask)


@triton.jit
def quantised_matmul(
    a, b, scales, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    at_m = tl.program_id(0)
    at_n = tl.program_id(1)
    rows = at_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = at_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for at in range(0, K, BLOCK_K):
        left = tl.load(a + rows[:, None] * K + (at + inner)[None, :])
        packed = tl.load(b + (at + inner)[:, None] * N + columns[None, :])
        scale = tl.load(scales + columns)
        right = ((packed & 0xF).to(tl.float32) - 8.0) * scale[None, :].to(tl.float32)
        acc += tl.dot(left, right.to(left.dtype))
    tl.store(c + rows[:, None] * N + columns[None, :], acc.to(c.dtype.element_ty))


@triton.jit
def scaled_matmul(
    a,
    a_scale,
    b,
    b_scale,
    c,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    group = tl.arange(0, BLOCK_K // 32)
    acc = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for at in range(0, K, BLOCK_K):
        left = tl.load(a + rows[:, None] * K + (at + inner)[None, :])
        right = tl.load(b + (at + inner)[:, None] + columns[None, :] * K)
        one = tl.load(a_scale + rows[:, None] * (K // 32) + (at // 32 + group)[None, :])
        two = tl.load(b_scale + columns[:, None] * (K // 32) + (at // 32 + group)[None, :])
        acc = tl.dot_scaled(left, one, "e4m3", right, two, "e4m3", acc)
    tl.store(c + rows[:, None] * 1024 + columns[None, :], acc)


@triton.jit
def gather_rows(table, index, out, N, D: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    feature = tl.arange(0, D)
    block = tl.load(table + at[:, None] * D + feature[None, :])
    chosen = tl.load(index + at[:, None] * D + feature[None, :])
    picked = tl.gather(block, chosen, axis=0)
    scaled = picked.to(tl.float32) * 2.0
    tl.store(out + at[:, None] * D + feature[None, :], scaled, mask=at[:, None] < N)


@triton.jit
def double_dot(q, k, v, w, o, T, BLOCK: tl.constexpr, D: tl.constexpr):
    at = tl.arange(0, BLOCK)
    feature = tl.arange(0, D)
    state = tl.zeros([D, D], dtype=tl.float32)
    for t in range(0, T, BLOCK):
        keys = tl.load(k + (t + at)[:, None] * D + feature[None, :])
        values = tl.load(v + (t + at)[:, None] * D + feature[None, :])
        queries = tl.load(q + (t + at)[:, None] * D + feature[None, :])
        gate = tl.load(w + (t + at)[:, None] * D + feature[None, :])
        fresh = values - tl.dot(gate, state.to(gate.dtype)).to(values.dtype)
        score = tl.dot(queries, tl.trans(keys))
        score = tl.where(at[:, None] >= at[None, :], score, 0.0)
        out = tl.dot(queries, state.to(queries.dtype)) + tl.dot(score.to(fresh.dtype), fresh)
        tl.store(o + (t + at)[:, None] * D + feature[None, :], out.to(o.dtype.element_ty))
        state = state + tl.dot(tl.trans(keys), fresh)


@triton.jit
def half_norm(x, w, y, eps, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * N + at, mask=at < N, other=0.0)
    square = tl.sum(value * value, axis=0) / N
    scale = tl.math.rsqrt(square + eps)
    weight = tl.load(w + at, mask=at < N, other=0.0)
    tl.store(y + row * N + at, (value * scale) * weight, mask=at < N)
    tl.store(y + row, tl.tanh(scale))
