"""Fails: 3.6.0, 3.8.0, 3.9.0."""

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def kernel(x, y):
    a = tl.load(x + tl.arange(0, 16))
    b = tl.inline_asm_elementwise(
        "mov.b32 $0, $2; mov.b32 $1, $2;", "=r,=r,r", [a], tl.uint32, is_pure=True, pack=2
    )
    tl.store(y + tl.arange(0, 16), b)


source = ASTSource(kernel, {"x": "*fp32", "y": "*u32"}, {})
triton.compile(source, target=GPUTarget("cuda", 90, 32))
