"""A page of memory that outlives the process writing it: which request, which stage, how many done.

The compiler may take its process down at any instruction, so what the worker was doing is
written where the parent process still sees it. Writing costs no system call.
"""

from __future__ import annotations

import mmap
import struct

_LAYOUT = struct.Struct("qq32s")


class Page:
    """Shared between the server and the worker forked from it."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        self._request, self._done = -1, 0

    def clear(self) -> None:
        self._request, self._done = -1, 0
        self.stage("")

    @property
    def fresh(self) -> bool:
        """Whether the worker has finished nothing yet."""
        return self._done == 0

    def begin(self, request: int) -> None:
        self._request = request
        self.stage("import")

    def stage(self, name: str) -> None:
        _LAYOUT.pack_into(self._memory, 0, self._request, self._done, name.encode()[:32])

    def finish(self) -> None:
        self._request = -1
        self._done += 1
        self.stage("")

    def read(self) -> tuple[int, int, str]:
        """The request in work (-1: none), how many were finished, the stage reached."""
        request, done, stage = _LAYOUT.unpack_from(self._memory, 0)
        return request, done, stage.rstrip(b"\0").decode()
