"""Pin files that tests write, and what the gate reads in them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flacheck.capabilities.gate import sources
from flacheck.capabilities.gate.pins import Installation


def write(name: str, text: str) -> Path:
    """A file in the current folder."""
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def pins_by_installation(installations: list[Installation]) -> dict[str, list[str]]:
    """Return the pins of each installation as `FILE:LINE REQUIREMENT`."""
    return {
        installation.name: [f"{pin.where} {pin.requirement}" for pin in installation.pins]
        for installation in installations
    }


class _Raises(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise AssertionError(record.getMessage())


@contextmanager
def no_warning() -> Iterator[None]:
    """Fail on a warning, for files that need no assumption."""
    logger = logging.getLogger("flacheck.capabilities.gate")
    handler = _Raises()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def read(*files: Path) -> dict[str, list[str]]:
    """Return the pins of files that are installed together, without a warning."""
    with no_warning():
        return pins_by_installation(sources.of_files(files))
