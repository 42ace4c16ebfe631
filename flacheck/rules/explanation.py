"""Explanations: a rule's texts, beside what it found in a log."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from flacheck.errors import UsageError
from flacheck.model import Finding, Json
from flacheck.rules.base import RULES
from flacheck.rules.classify import read
from flacheck.tables.advisories import Advisory


@dataclass(frozen=True)
class Explanation:
    """One finding with its rule's cause, remedy, versions and links; `line` is None for a bare
    code."""

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
    return [_explained(RULES[code].finding())]


def of_log(text: str) -> list[Explanation]:
    """What a compiler's output shows, the decisive finding first; nothing without a failure."""
    return [_explained(finding) for finding in read(text)]


def _explained(finding: Finding) -> Explanation:
    rule = RULES[finding.code]
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


def to_json(explanations: Sequence[Explanation], advisories: Sequence[Advisory] = ()) -> Json:
    """The document flacheck.explain/1."""
    findings = []
    for each in explanations:
        plain = asdict(each)
        del plain["links"]
        plain["versions"] = {"bad": list(plain.pop("bad")), "good": list(plain.pop("good"))}
        findings.append(plain)
    return {
        "schema": "flacheck.explain/1",
        "findings": findings,
        "advisories": [advisory.to_json() for advisory in advisories],
    }
