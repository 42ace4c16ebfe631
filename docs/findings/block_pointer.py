"""Fails: 3.9.0; compiles: 3.6.0, 3.8.0."""

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def kernel(x):
    p = tl.make_block_ptr(x, (16,), (1,), (0,), (16,), (0,))
    tl.store(p, tl.load(p) + 1)


source = ASTSource(kernel, {"x": "*fp32"}, {})
triton.compile(source, target=GPUTarget("cuda", 90, 32))
