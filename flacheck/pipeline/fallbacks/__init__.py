"""Fallbacks for failing cells: found in records (`alternatives`) or compiled (`searching`)."""
