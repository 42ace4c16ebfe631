"""Follows dtypes under mixed precision: from a module's parameters to the kernels it
launches."""
