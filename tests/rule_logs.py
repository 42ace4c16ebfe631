"""The logs that the tests of rules read: all of them really came from a compiler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flacheck.rules import read, signature

LOGS = Path(__file__).parent / "logs"


def logs(kind: str) -> list[str]:
    """The names of all logs of a kind, `golden` or `near`."""
    return sorted(str(path.relative_to(LOGS)) for path in LOGS.glob(f"*/{kind}-*.log"))


def log_of(name: str) -> str:
    return (LOGS / name).read_text()


def json_of(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((LOGS / name).read_text())
    return loaded


def signature_of(name: str, stage: str = "llir") -> str:
    return signature(read(log_of(name))[0], stage)
