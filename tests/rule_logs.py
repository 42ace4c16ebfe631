"""The logs that the tests of rules read: output of compilers and programs, and public reports."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from flacheck.rules import read, signature

LOGS = Path(__file__).parent / "logs"
CASES = Path(__file__).parent / "cases"
# The sealed halves of the reports stand for no rule.
_OPEN_CASES = (
    *("known", "reports", "reports_newest", "reports_drawn_fourth", "reports_drawn_eighth"),
    *("reports_drawn_tenth", "reports_drawn_twelfth", "reports_drawn_seventeenth"),
    *("reports_drawn_eighteenth", "reports_drawn_nineteenth", "reports_drawn_twentieth"),
    "reports_drawn_twentyfirst",
)


def logs(kind: str) -> list[str]:
    """The names of all logs of a kind, `golden` or `near`."""
    return sorted(str(path.relative_to(LOGS)) for path in LOGS.glob(f"*/{kind}-*.log"))


@cache
def evidence(kind: str) -> list[tuple[str, str]]:
    """The codes with the names of their logs of a kind, in a code's folder or listed for it."""
    pairs = [(name.partition("/")[0], name) for name in logs(kind)]
    entries = yaml.safe_load((LOGS / "evidence.yaml").read_text())
    for code, entry in entries.items():
        pairs.extend((code, name) for name in entry.get(kind, ()))
    return pairs


def cases(name: str) -> list[dict[str, Any]]:
    """The cases of a file."""
    content: list[dict[str, Any]] = yaml.safe_load((CASES / f"{name}.yaml").read_text())
    return content


@cache
def _report_logs() -> dict[str, str]:
    return {case["id"]: case["log"] for name in _OPEN_CASES for case in cases(name)}


def log_of(name: str) -> str:
    """The text of a log: a file, or a report by its id."""
    if "#" in name:
        return _report_logs()[name]
    return (LOGS / name).read_text()


def json_of(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((LOGS / name).read_text())
    return content


def signature_of(name: str, stage: str = "llir") -> str:
    return signature(read(log_of(name))[0], stage)
