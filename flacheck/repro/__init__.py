"""From a failing cell to a minimal script of its own, verified on every release.

    with Compilers(at_hand.releases(cell, specs, progress)) as compilers:
        reproduction = Reproduction(cell, package, compilers, Budget(600))
        for progress in reproduction.steps(): …
        files.write(reproduction.finish(), folder)

A specimen (a module, one kernel, one launch) goes through passes; each proposes smaller ones,
`order` says which are better, the oracle asks the compilers: the same signature on the failing
release, still compiling on the contrasts.
"""
