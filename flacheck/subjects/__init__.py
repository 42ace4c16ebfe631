"""What is asked about: packages, checkouts, matrices and launches files, as kernels with launches.

A capture is the one step that runs a package's code, and it does so in the sandbox. Nothing here
compiles or judges.
"""
