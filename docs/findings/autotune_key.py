"""Fails: 3.9.0; compiles: 3.6.0, 3.8.0."""

import triton


@triton.autotune([triton.Config({})], key=["dropout_p"])
@triton.jit
def kernel(x):
    pass
