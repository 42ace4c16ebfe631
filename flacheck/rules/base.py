"""What a rule is: the declaration that every failure code has, and nothing that runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flacheck.model import Finding

UNCLASSIFIED = "FC000"
TRITON_ISSUES = "https://github.com/triton-lang/triton/issues"
FLA_ISSUES = "https://github.com/fla-org/flash-linear-attention/issues"


def text(*patterns: str) -> tuple[re.Pattern[str], ...]:
    """Patterns over a whole log: `^` and `$` are the ends of lines."""
    return tuple(re.compile(pattern, re.MULTILINE) for pattern in patterns)


@dataclass(frozen=True)
class Rule:
    """One failure code: how to know it, why it happens, what to do.

    `patterns` search a whole log; their named groups become facts, and a group named `function` the
    finding's function. Of several rules that match, the one with the highest `specificity` is
    decisive. `bad` and `good` are PEP 440 specifiers of compilers (`triton==3.2.0`); empty when no
    release is to blame. `effect` is the verdict the finding leads to: `fails`, `unknown`,
    `compiles` or `advisory`.
    """

    code: str
    name: str
    title: str
    summary: str
    cause: str
    remedy: str
    patterns: tuple[re.Pattern[str], ...] = ()
    bad: tuple[str, ...] = ()
    good: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    specificity: int = 50
    effect: str = "fails"
    confidence: str = "high"

    def search(self, log: str) -> re.Match[str] | None:
        """The first match of the first pattern that matches at all."""
        return next((found for pattern in self.patterns if (found := pattern.search(log))), None)

    def finding(self, message: str = "", **changes: Any) -> Finding:
        """A finding of this rule."""
        plain: Mapping[str, Any] = {"title": self.title, "confidence": self.confidence, **changes}
        return Finding(self.code, message=message, **plain)
