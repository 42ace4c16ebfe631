"""Lists of the cache's folders and of stored runs; their JSON Schemas are generated."""

from __future__ import annotations

from enum import Enum
from typing import Literal

from flacheck.model.wire import JsonStruct


class Action(str, Enum):
    """The treatment of the entries of a list."""

    LIST = "list"
    REMOVE = "remove"
    DRY_RUN = "dry-run"


class CacheEntry(JsonStruct, frozen=True):
    """A folder of the cache.

    `bytes` is its size, `unused_days` the time since a command last used it. `in_use` is true for a
    folder that another process uses, which stays.
    """

    kind: str
    name: str
    path: str
    bytes: int
    unused_days: float
    in_use: bool = False


class CacheListing(JsonStruct, frozen=True, kw_only=True):
    """The folders of the cache: all of them, or those that were or would be removed."""

    schema: Literal["flacheck.cache/1"] = "flacheck.cache/1"
    folder: str
    action: Action = Action.LIST
    entries: list[CacheEntry]

    @property
    def bytes(self) -> int:
        """The size of all entries, for a removal of those that are not in use."""
        size = 0
        for entry in self.entries:
            if self.action is Action.LIST or not entry.in_use:
                size += entry.bytes
        return size


class RunEntry(JsonStruct, frozen=True):
    """A stored run.

    `finished` is null for an interrupted run. `cells` counts the cells of its question; it is null
    for a run without one, or if the capture that decides them did not end.
    """

    id: str
    started: str
    finished: str | None
    purpose: str
    about: str
    records: int
    cells: int | None


class RunListing(JsonStruct, frozen=True, kw_only=True):
    """Stored runs: all of them, or those that were or would be removed.

    `records_removed` counts the records that no remaining run contains.
    """

    schema: Literal["flacheck.runs/1"] = "flacheck.runs/1"
    store: str
    action: Action = Action.LIST
    records_removed: int = 0
    runs: list[RunEntry]
