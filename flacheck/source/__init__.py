"""A package's files, kept at an exact version, and its Python source, read without importing it.

This code neither runs a package's code nor uses launches or records.
"""
