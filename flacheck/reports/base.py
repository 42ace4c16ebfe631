"""What every report is given, and the page it is written on."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from flacheck.analysis import Summary
from flacheck.model import Json, Record
from flacheck.rules import RULES


class RuleText(Protocol):
    """What a report says of a rule."""

    @property
    def title(self) -> str: ...

    @property
    def cause(self) -> str: ...

    @property
    def remedy(self) -> str: ...


def shipped_rule(code: str) -> RuleText | None:
    """The rule of a code, None for a code that this flacheck does not know."""
    return RULES.get(code)


@dataclass(frozen=True)
class RunView:
    """One run, or several as one: `run` is the contract's run object, `records` gives all records
    anew each time it is called, `next_commands` (chosen by the report when empty) are what to type
    next.
    """

    run: Json
    records: Callable[[], Iterable[Record]]
    summary: Summary
    rule_for: Callable[[str], RuleText | None] = shipped_rule
    next_commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class Page:
    """How wide a report for people may be, and whether it may be coloured."""

    width: int = 100
    color: bool = False

    @staticmethod
    def of_stdout() -> Page:
        """The page that stdout offers; `COLUMNS` and `NO_COLOR` hold."""
        return Page(
            shutil.get_terminal_size((100, 24)).columns,
            sys.stdout.isatty() and not os.environ.get("NO_COLOR"),
        )


Render = Callable[[RunView, Page], Iterator[str]]
