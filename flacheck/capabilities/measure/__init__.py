"""The measurement of compiled launches on a GPU: bundles, their run, and what the figures mean."""
