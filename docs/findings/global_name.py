"""Fails: 3.2.0, 3.6.0, 3.8.0, 3.9.0."""

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

_sqrt2pi = 0.7978845608028654


@triton.jit
def kernel(x):
    tl.store(x, _sqrt2pi * tl.load(x))


source = ASTSource(kernel, {"x": "*fp32"}, {})
triton.compile(source, target=GPUTarget("cuda", 90, 32))
