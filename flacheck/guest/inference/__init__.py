"""Arguments for operators of unknown packages: shapes, dtypes and values.

Arguments are inferred from recipes, documentation, signatures, names and the operators' source
code.
"""
