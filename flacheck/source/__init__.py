"""A package's files, kept at an exact version, and its Python source, read without importing it.

Nothing here runs a package's code or knows of launches and records.
"""
