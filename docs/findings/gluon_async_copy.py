"""Fails: 3.9.0; compiles: 3.6.0, 3.7.1, 3.8.0."""

from triton.backends.compiler import GPUTarget
from triton.compiler import compile
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.ampere import async_copy as cp


@gluon.jit
def kernel(x):
    offsets = gl.arange(0, 128, gl.BlockedLayout([1], [32], [4], [0]))
    shared = gl.allocate_shared_memory(gl.float32, [128], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    cp.async_copy_global_to_shared(shared, x + offsets)
    cp.wait_group(0)


compile(GluonASTSource(kernel, {"x": "*fp32"}, {}), target=GPUTarget("cuda", 90, 32))
