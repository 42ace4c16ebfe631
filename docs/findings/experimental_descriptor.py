"""Fails: 3.4.0, 3.6.0, 3.8.0, 3.9.0; compiles: 3.2.0, 3.3.1."""

import triton.tools.experimental_descriptor  # noqa: F401
