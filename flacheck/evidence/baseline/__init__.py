"""Baselines: the known failures of a project's kernels, in a small file that is committed."""
