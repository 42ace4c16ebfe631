"""A baseline: what is known of a project's kernels, in a small file that is committed."""
