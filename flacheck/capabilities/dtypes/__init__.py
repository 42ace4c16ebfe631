"""Dtypes under mixed precision, from a module's parameters to the kernels that it launches."""
