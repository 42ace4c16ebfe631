"""The version of flacheck."""

__version__ = "0.1.0"
