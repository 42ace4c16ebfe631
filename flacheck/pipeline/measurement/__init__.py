"""The measurement of launches on a GPU: their binaries, bundles, the run, and its results."""
