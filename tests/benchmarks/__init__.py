"""What flacheck costs beside plain compiling, as ratios within one run: `python -m
tests.benchmarks`.
"""
