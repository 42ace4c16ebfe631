"""What a rule is, and every rule by its code: `rules.yaml` holds the declarations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import yaml

from flacheck.model import Finding

UNCLASSIFIED = "FC000"


@dataclass(frozen=True)
class Rule:
    """One failure code: how to know it, why it happens, what to do.

    `patterns` search a whole log, in which `^` and `$` are the ends of lines; their named groups
    become facts, and a group named `function` the finding's function. Of several rules that match,
    the one with the highest `specificity` is decisive. `bad` and `good` are PEP 440 specifiers of
    compilers (`triton==3.2.0`); empty when no release is to blame. `effect` is the verdict the
    finding leads to: `fails`, `unknown`, `compiles` or `advisory`.
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
        matches = (pattern.search(log) for pattern in self.patterns)
        return next(filter(None, matches), None)

    def finding(self, message: str = "", **changes: Any) -> Finding:
        """A finding of this rule."""
        plain: Mapping[str, Any] = {"title": self.title, "confidence": self.confidence, **changes}
        return Finding(self.code, message=message, **plain)


def _declared(entry: Mapping[str, Any]) -> Rule:
    patterns = ("".join(parts) for parts in entry.get("patterns", ()))
    lists = {name: tuple(entry.get(name, ())) for name in ("bad", "good", "links")}
    compiled = tuple(re.compile(pattern, re.MULTILINE) for pattern in patterns)
    return Rule(**{**entry, **lists, "patterns": compiled})


def _load() -> dict[str, Rule]:
    text = files(__package__).joinpath("rules.yaml").read_text(encoding="utf-8")
    rules = map(_declared, yaml.safe_load(text))
    return {rule.code: rule for rule in rules}


RULES = _load()
