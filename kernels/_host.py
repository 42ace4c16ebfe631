"""Host functions that the families share: the layout of tokens in chunks, checks, and gradients."""

import functools
import itertools


def layout(B, T, cu_seqlens, BT, device):
    """Return (sequences [N, 3], chunks [NC, 2]), i32, as `_tiles` describes them.

    `cu_seqlens` [N + 1] holds the bounds of the sequences of a batch of one; None: B sequences of T tokens each.
    """
    if cu_seqlens is None:
        bounds = range(0, B * T + 1, T)
    else:
        bounds = cu_seqlens.tolist()
        rises = all(start < end for start, end in itertools.pairwise(bounds))
        if B != 1 or bounds[0] != 0 or bounds[-1] != T or not rises:
            raise ValueError(f"cu_seqlens must rise from 0 to T = {T}, and B must be 1")
    return spans(tuple(bounds), BT, device)


@functools.lru_cache(maxsize=64)
def spans(bounds, BT, device):
    """Return the tables of `layout` for sequences with these bounds."""
    import torch

    sequences, chunks = [], []
    for start, end in itertools.pairwise(bounds):
        sequences.append((start, end - start, len(chunks)))
        chunks += [(first, min(BT, end - first)) for first in range(start, end, BT)]
    return (
        torch.tensor(sequences, dtype=torch.int32, device=device),
        torch.tensor(chunks, dtype=torch.int32, device=device),
    )


def check(**arguments):
    """Raise ValueError unless each (tensor, shape) agrees and is contiguous; a None tensor is left out."""
    for name, (tensor, shape) in arguments.items():
        if tensor is None:
            continue
        if tuple(tensor.shape) != tuple(shape):
            raise ValueError(f"{name} is {list(tensor.shape)}, expected {list(shape)}")
        if not tensor.is_contiguous():
            raise ValueError(f"{name} must be contiguous")


def check_qkv(q, k, v, h0=None, cu_seqlens=None):
    """Return B, T, H, K, V of contiguous q, k [B, T, H, K] and v [B, T, H, V]; else raise ValueError."""
    if q.dim() != 4 or v.dim() != 4:
        raise ValueError("q and k are [B, T, H, K], and v is [B, T, H, V]")
    B, T, H, K = q.shape
    V = v.shape[-1]
    N = B if cu_seqlens is None else len(cu_seqlens) - 1
    check(q=(q, (B, T, H, K)), k=(k, (B, T, H, K)), v=(v, (B, T, H, V)), h0=(h0, (N, H, K, V)))
    return B, T, H, K, V


def sequences_of(cu_seqlens, T):
    """Return (number, first token, end) of each sequence of a batch element, for the references."""
    bounds = [0, T] if cu_seqlens is None else cu_seqlens.tolist()
    return [(n, start, end) for n, (start, end) in enumerate(itertools.pairwise(bounds))]


@functools.cache
def differentiable(forward, backward):
    """Return a function of (options, *tensors) whose gradients are those of `backward`.

    `forward(*tensors, **options)` returns the outputs, such as (o, ht), and the tensors to keep; `backward(kept, do,
    dht, **options)` returns a gradient or None for each tensor.
    """
    import torch

    class Operator(torch.autograd.Function):
        @staticmethod
        def forward(ctx, options, *tensors):
            results, kept = forward(*tensors, **options)
            ctx.options = options
            ctx.save_for_backward(*kept)
            return results

        @staticmethod
        def backward(ctx, *cotangents):
            contiguous = [cotangent.contiguous() for cotangent in cotangents]
            gradients = backward(ctx.saved_tensors, *contiguous, **ctx.options)
            needed = zip(gradients, ctx.needs_input_grad[1:])
            return (None, *(gradient if is_needed else None for gradient, is_needed in needed))

    return Operator.apply


def walk(step, h, T, cu_seqlens=None):
    """Return (outputs [B, T, ...], last states) of a recurrence whose `step(h, t)` returns (h, o)."""
    import torch

    outputs, states = [], []
    for n, start, end in sequences_of(cu_seqlens, T):
        state = h if cu_seqlens is None else h[n : n + 1]
        for t in range(start, end):
            state, o = step(state, t)
            outputs.append(o)
        states.append(state)
    return torch.stack(outputs, 1), torch.cat(states)


def constant_gate(g, q):
    """Return a head's constant log decay g [H] as that of each token of q, [B, T, H], fp32."""
    return g.float().expand(*q.shape[:3]).contiguous()


def first_state(q, V, h0, cu_seqlens):
    """Return h0 in float64, or zeros [N, H, K, V]."""
    if h0 is not None:
        return h0.double()
    N = q.shape[0] if cu_seqlens is None else len(cu_seqlens) - 1
    return q.new_zeros(N, q.shape[2], q.shape[3], V).double()
