"""The declaration of each failure code."""

from __future__ import annotations

import re

import pytest

from flacheck.rules.base import RULES, Rule
from tests.code_pages import PAGE, page
from tests.rule_logs import LOGS, evidence


def test_every_rule_has_a_golden_log_and_a_near_miss() -> None:
    """Every code has a golden log and a near miss."""
    for kind in ("golden", "near"):
        codes = {code for code, _ in evidence(kind)}
        codes.update(path.parent.name for path in LOGS.glob(f"*/{kind}-*.json"))
        assert codes == set(RULES)


def test_every_rule_tells_a_user_what_to_do() -> None:
    """Codes are well-formed and have all their texts."""
    for code, rule in RULES.items():
        assert re.fullmatch(r"FC\d{3}", code)
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.name)
        assert all((rule.title, rule.summary, rule.cause, rule.remedy))
        assert rule.effect in ("fails", "unknown", "compiles", "advisory")
        assert rule.shows in ("compile", "partly", "run", "machine")
        assert rule.confidence in ("certain", "likely", "possible")
        assert all(link.startswith("https://") for link in rule.links)
    assert len({rule.name for rule in RULES.values()}) == len(RULES)


def test_a_rule_searches_its_patterns_in_their_order() -> None:
    """The first matching pattern wins, not the earliest match."""
    patterns = (re.compile("late"), re.compile("early"))
    rule = Rule("FC000", "name", "Title", "summary", "cause", "remedy", patterns)
    assert [rule.search(log)[0] for log in ("early late", "early")] == ["late", "early"]  # type: ignore[index]
    assert rule.search("never") is None


def test_a_rules_finding_may_differ_in_title_and_confidence() -> None:
    """A finding has its own title and confidence, or the rule's."""
    rule = RULES["FC302"]
    assert rule.finding("text").title == rule.title
    other = rule.finding("text", title="Other", confidence="possible", line=3)
    assert (other.code, other.title, other.confidence) == ("FC302", "Other", "possible")
    assert (other.message, other.line) == ("text", 3)


@pytest.mark.parametrize("code", sorted(RULES))
def test_the_named_releases_are_specifiers(code: str) -> None:
    """`bad` and `good` are version specifiers."""
    for text in (*RULES[code].bad, *RULES[code].good):
        assert re.fullmatch(r"(triton|nvcc|torch)\S*|[\w-]+[<>=!~].*", text), text


def test_the_page_of_codes_is_current() -> None:
    """The page of codes equals `python -m tests.code_pages`."""
    assert PAGE.read_text() == page()
