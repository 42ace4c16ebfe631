"""flacheck: know what a compiler upgrade will break before anyone upgrades."""

__version__ = "0.1.0"
