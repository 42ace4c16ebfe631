"""The changes between two compilers, or two sets of stored results, for the same kernels.

    FROM, TO ── sides ──▶ two releases, or stored records
                             │
    package, matrix ── comparison_plan ──▶ the same cells under both ──▶ engine ──▶ records
                                                                             │
                          matching: pairs of records, and kernels of one side only
                                                                             │
                       differences: each pair's kind ──▶ result: the answer, the pin
                                                                             │
                                                                       reports, cli

`sides` and `comparison_plan` look things up; `matching`, `differences`, `tally` and `result` are
pure.
"""
