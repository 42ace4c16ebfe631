"""The reduction of a failing cell to a minimal standalone script, verified on every release.

A specimen (a module, one kernel, one launch) goes through passes. Each pass proposes smaller
specimens, `cost` decides which are better, and the oracle compiles them: the same signature on the
failing release, still compiling on the contrasts.
"""
