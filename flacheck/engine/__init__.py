"""The sandbox, the executors that share its workers out, the judge and the one loop.

What should be compiled is decided above, and what a failure means beside it in `evidence`.
"""
