"""Explanations: a rule's texts, beside what it found in a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flacheck.errors import UsageError
from flacheck.model import Finding, Json
from flacheck.rules import RULES, UNCLASSIFIED, Rule, read

__all__ = ["UNCLASSIFIED", "Explanation", "of_code", "of_log", "to_json"]


@dataclass(frozen=True)
class Explanation:
    """One finding with its rule's cause, remedy, versions and links; `line` is None for a bare
    code.
    """

    code: str
    title: str
    confidence: str
    line: int | None
    excerpt: str
    cause: str
    remedy: str
    bad: tuple[str, ...]
    good: tuple[str, ...]
    links: tuple[str, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)


def of_code(code: str) -> list[Explanation]:
    """The rule of that code; UsageError with the known ones when there is none."""
    if code not in RULES:
        raise UsageError(f"no failure code {code}: known are {', '.join(sorted(RULES))}")
    rule = RULES[code]
    return [_explained(rule, Finding(code, rule.title, confidence=rule.confidence))]


def of_log(text: str) -> list[Explanation]:
    """What a compiler's output shows, the decisive finding first; nothing for a text without a
    failure.
    """
    return [_explained(RULES[finding.code], finding) for finding in read(text)]


def _explained(rule: Rule, finding: Finding) -> Explanation:
    return Explanation(
        code=finding.code,
        title=finding.title,
        confidence=finding.confidence,
        line=finding.line,
        excerpt=finding.excerpt or finding.message,
        cause=rule.cause,
        remedy=rule.remedy,
        bad=rule.bad,
        good=rule.good,
        links=rule.links,
        facts=finding.facts,
    )


def to_json(found: Sequence[Explanation]) -> Json:
    """The answer as JSON: flacheck.explain/1."""
    return {"schema": "flacheck.explain/1", "findings": [_entry(entry) for entry in found]}


def _entry(entry: Explanation) -> Json:
    names = ("code", "title", "confidence", "line", "excerpt", "cause", "remedy")
    plain: Json = {name: getattr(entry, name) for name in names}
    return {
        **plain,
        "versions": {"bad": list(entry.bad), "good": list(entry.good)},
        "facts": dict(entry.facts),
    }
