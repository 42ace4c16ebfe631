"""`flacheck.doctor`: checks of this machine."""

from __future__ import annotations

from collections.abc import Iterator

from flacheck.toolchains import doctor as checks
from flacheck.toolchains.doctor import Check


def doctor() -> Iterator[Check]:
    """Yield each check of this machine as soon as it is made; some need the network."""
    yield from checks.checks()
