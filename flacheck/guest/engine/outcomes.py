"""Calls of a package's, torch's or a compiler's own code, which may raise anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def outcome_of(call: Callable[[], T]) -> tuple[T | None, Exception | None]:
    """Return a call's result and None, or None and the error that it raised."""
    try:
        return call(), None
    # The error is the result. Its class depends on the package or the release.
    except Exception as error:
        return None, error
