"""Device functions that the kernels of all families share: tiles, spans of tokens, masks.

Tokens of all sequences lie one after another: row r of q, k [R, H, K] or v [R, H, V] is one token. A chunk is up to BT
tokens of one sequence. `chunks` [NC, 2], i32, holds each chunk's first row and its number of tokens; `sequences` [N, 3],
i32, holds each sequence's first row, its number of tokens and its first chunk. Equal and variable lengths
(`cu_seqlens`) therefore run the same code. A matrix of a chunk's tokens by its tokens lies as [NC, BT, H, BT].

A gate G is the sum of the log decays from the chunk's first token to this one. It never grows, and every exponent is a
difference of a later and an earlier sum, at most 0: no decay overflows.
"""

import triton
import triton.language as tl


@triton.jit
def load_tile(x, rows, cols, m_rows, m_cols):
    """Return the tile at the given offsets; masked elements are zero."""
    return tl.load(x + rows[:, None] + cols[None, :], mask=m_rows[:, None] & m_cols[None, :], other=0.0)


@triton.jit
def store_tile(x, rows, cols, m_rows, m_cols, value):
    """Write a tile in the element type of its destination."""
    mask = m_rows[:, None] & m_cols[None, :]
    tl.store(x + rows[:, None] + cols[None, :], value.to(x.dtype.element_ty), mask=mask)


@triton.jit
def load_chunk(chunks, i_c):
    """Return a chunk's first row and its number of tokens."""
    return tl.load(chunks + i_c * 2).to(tl.int64), tl.load(chunks + i_c * 2 + 1)


@triton.jit
def load_sequence(sequences, i_n):
    """Return a sequence's first row, its number of tokens and its first chunk."""
    at = sequences + i_n * 3
    return tl.load(at).to(tl.int64), tl.load(at + 1), tl.load(at + 2).to(tl.int64)


@triton.jit
def decay_between(b_late, b_early, mask):
    """Return exp(late - early) where the mask holds, else 0; the differences there are at most 0."""
    return tl.where(mask, tl.exp(tl.where(mask, b_late - b_early, 0.0)), 0.0)


@triton.jit
def token_decay(b_g, o_t, m_t, STRICT: tl.constexpr):
    """Return exp(G_i - G_j) for the tokens i >= j (i > j if STRICT) of a chunk, else 0."""
    mask = reaches(o_t, m_t, STRICT)
    return decay_between(b_g[:, None], b_g[None, :], mask)


@triton.jit
def reaches(o_t, m_t, STRICT: tl.constexpr):
    """Return the mask of the pairs of tokens i >= j (i > j if STRICT)."""
    if STRICT:
        mask = o_t[:, None] > o_t[None, :]
    else:
        mask = o_t[:, None] >= o_t[None, :]
    return mask & m_t[:, None]
