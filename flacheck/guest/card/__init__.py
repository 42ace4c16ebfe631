"""The runner: launches compiled binaries on a GPU with nothing but NVIDIA's driver.

It needs the standard library and `cuda.bindings`, which NVIDIA maintains beside its driver: one
Python function for each of the driver's, and no dependency on numpy (which `cuda-core` has).
"""
