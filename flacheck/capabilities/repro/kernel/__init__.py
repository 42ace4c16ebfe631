"""Syntax trees of kernels: analysis, type inference and edits."""
