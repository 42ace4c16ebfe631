"""The cost of flacheck beside plain compiling, as ratios within one run: `python -m
tests.benchmarks`."""
