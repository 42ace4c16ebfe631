"""Failures that no test knows, reduced by `flacheck repro` as a command, and judged from outside.

`python -m tests.benchmarks.failures reduce --out DIR [--store DIR] [CASE…]` runs the command on each
case and notes seconds, size and exit status. `python -m tests.benchmarks.failures judge --out DIR`
then runs every original and every reduction under every release at hand, without any code of
flacheck's, and says whether both do the same everywhere. `python -m tests.benchmarks.failures table
--out DIR` prints what both found.
"""
