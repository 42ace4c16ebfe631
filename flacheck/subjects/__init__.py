"""The subjects of commands.

Packages, checkouts, matrices and launches files, with launches.

A capture is the one step that runs a package's code, and it does so in the sandbox. This package
neither compiles nor judges.
"""
