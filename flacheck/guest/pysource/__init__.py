"""Analysis of Python source by the standard library alone."""
