"""`flacheck.explain`: the meaning of a failure code, or the failure in a log."""

from __future__ import annotations

import re
from dataclasses import dataclass

from flacheck.errors import Exit
from flacheck.model import Json
from flacheck.rules import UNCLASSIFIED, explanation, log_advisories
from flacheck.rules.explanation import Explanation
from flacheck.tables.advisories import Advisory

_CODE = re.compile(r"FC\d{3}", re.IGNORECASE)


@dataclass(frozen=True)
class Explained:
    """The findings of a log, the decisive one first, and the advisories that it matches."""

    findings: tuple[Explanation, ...]
    advisories: tuple[Advisory, ...] = ()

    @property
    def exit_code(self) -> Exit:
        """OK if the decisive failure is recognised, or an advisory matches."""
        is_recognised = bool(self.findings) and self.findings[0].code != UNCLASSIFIED
        if is_recognised or self.advisories:
            return Exit.OK
        return Exit.FINDINGS

    def to_json(self) -> Json:
        """Return the document flacheck.explain/1."""
        return explanation.to_json(self.findings, self.advisories)


def explain(text: str) -> Explained:
    """Explain a failure code, or name the failure in the text of a log.

    >>> explain("FC501").findings[0].code
    'FC501'

    Args:
        text: A code such as FC302, or a log.

    Raises:
        UsageError: If no rule has that code.
    """
    if is_code(text):
        return Explained(tuple(explanation.of_code(text.upper())))
    return Explained(tuple(explanation.of_log(text)), tuple(log_advisories.of_log(text)))


def is_code(text: str) -> bool:
    """Return True for text that has the form of a failure code."""
    return _CODE.fullmatch(text) is not None
