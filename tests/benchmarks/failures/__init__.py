"""Failures beside those of the tests, reduced by `flacheck repro` and judged from outside.

`python -m tests.benchmarks.failures reduce --out DIR [CASE…]` runs the command on each case and
notes seconds, size and exit status. `judge --out DIR` then runs every original and every reduction under every
release at hand, without any code of flacheck's, and reports whether both do the same everywhere
and, where they do not, whether the reduction's files state it. `table --out DIR` prints both.

Processes start sessions of their own; if the kernel groups processes by session, niceness has no
effect, so measure on a quiet machine or in a control group.
"""
