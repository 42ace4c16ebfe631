"""From a failing cell to a minimal script of its own, verified on every release.

A specimen (a module, one kernel, one launch) goes through passes; each proposes smaller ones,
`cost` says which are better, the oracle asks the compilers: the same signature on the failing
release, still compiling on the contrasts.
"""
