"""The sandbox, the executors that share its workers out, the judge and the one loop.

`pipeline` selects the cells to compile, and `evidence` interprets the failures.
"""
