"""The version of flacheck."""

__version__ = "0.2.0"
