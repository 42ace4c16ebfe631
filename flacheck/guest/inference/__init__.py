"""Arguments for operators of unknown packages: shapes, dtypes and values.

They are inferred from recipes, documentation, signatures, names and the operators' source code.
"""
