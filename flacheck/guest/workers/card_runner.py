"""The runner of compiled binaries as a worker of the server."""

# The name under which the server looks for a module's worker.
from ..card.runner import BinaryRunner as Worker

__all__ = ["Worker"]
