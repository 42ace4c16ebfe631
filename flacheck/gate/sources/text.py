"""Reading a file that holds pins."""

from __future__ import annotations

from pathlib import Path

from flacheck.errors import UsageError


def read_text(path: Path, shown: str) -> str:
    """The text with its own line ends, without a byte order mark; UsageError when it cannot be read."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{shown}: cannot be read ({error.strerror}); check the name and its permissions") from None
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise UsageError(f"{shown}:{line}: is not UTF-8 text; save it as UTF-8") from None
