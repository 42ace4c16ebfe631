"""Binaries of cells in the cache, compressed, each in a file named by its cell's key."""

from __future__ import annotations

from flacheck.model import Json
from flacheck.toolchains import cache

_FOLDER = "binaries"


class Binaries:
    """The binaries in the user's cache; a removed one is compiled again."""

    def has(self, key: str) -> bool:
        """Return True if the cell's binary is here."""
        return (cache.root() / _name(key)).is_file()

    def add(self, key: str, binary: Json) -> None:
        """Keep the binary that a worker returned, with what its launch needs."""
        cache.write_json(_name(key), binary)

    def read(self, key: str) -> Json | None:
        """Return a cell's binary; None if it is missing or unreadable."""
        return cache.read_json(_name(key)) or None


def _name(key: str) -> str:
    return f"{_FOLDER}/{key[:2]}/{key}.json"
