"""The rules by code; `rules.yaml` holds the declarations."""

import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import yaml

from flacheck.model import Finding

UNCLASSIFIED = "FC000"


@dataclass(frozen=True)
class Rule:
    """One failure code: its patterns in logs, its cause and its remedy.

    `patterns` search a whole log, in which `^` and `$` are the ends of lines; their named groups
    become facts, and a group named `function` the finding's function. Of several rules that match,
    the one with the highest `specificity` is decisive. `bad` and `good` are PEP 440 specifiers of
    compilers (`triton==3.2.0`); empty if the cause is not a release. `effect` is the verdict that
    follows from the finding: `fails`, `unknown`, `compiles` or `advisory`.
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
        """Return the match of the first pattern that matches; None if no pattern does."""
        for pattern in self.patterns:
            match = pattern.search(log)
            if match:
                return match
        return None

    def finding(self, message: str = "", **changes: Any) -> Finding:
        """Return a finding of this rule."""
        plain = {"title": self.title, "confidence": self.confidence, **changes}
        return Finding(self.code, message=message, **plain)


def _load() -> dict[str, Rule]:
    text = files(__package__).joinpath("rules.yaml").read_text(encoding="utf-8")
    rules = {}
    for entry in yaml.safe_load(text):
        for name in ("bad", "good", "links"):
            entry[name] = tuple(entry.get(name, ()))
        # A long pattern is a list of parts in the file.
        patterns = ["".join(parts) for parts in entry.get("patterns", ())]
        entry["patterns"] = tuple(re.compile(pattern, re.MULTILINE) for pattern in patterns)
        rules[entry["code"]] = Rule(**entry)
    return rules


RULES = _load()
