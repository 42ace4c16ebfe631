"""Explanations: the texts of a rule with its finding in a log."""

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
    """One finding with its rule's cause, remedy, versions and links.

    `line` is None for a code without a log.
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
    """Return the explanation of a code; raise UsageError with the valid codes for another one."""
    if code not in RULES:
        raise UsageError(f"no failure code {code}: known are {', '.join(sorted(RULES))}")
    return [_explain(RULES[code].finding())]


def of_log(text: str) -> list[Explanation]:
    """Return the findings in a compiler's output, the decisive one first."""
    return [_explain(finding) for finding in read(text)]


def _explain(finding: Finding) -> Explanation:
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
    """Return the document flacheck.explain/1."""
    findings = []
    for explanation in explanations:
        plain = asdict(explanation)
        del plain["links"]
        plain["versions"] = {"bad": list(plain.pop("bad")), "good": list(plain.pop("good"))}
        findings.append(plain)
    return {
        "schema": "flacheck.explain/1",
        "findings": findings,
        "advisories": [advisory.to_json() for advisory in advisories],
    }
